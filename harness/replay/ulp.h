// How far a row's results are from their golden, in steps between neighbouring words of the result's type,
// and how often each distance occurs. A measurement: it accepts nothing and refuses nothing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/json.h"
#include "model/tensor.h"

namespace h3 {

// Distances in bins 0, 1, 2, 3-4, 5-8, 9-16, ...: bin b > 1 ends at 2^(b - 1).
struct UlpHistogram {
  static constexpr int kBins = 34;
  static int bin_of(std::uint64_t distance);
  static std::string bin_name(int bin);  // "5-8"

  std::int64_t elements = 0;
  std::array<std::int64_t, kBins> bins = {};  // finite on both sides
  std::int64_t non_finite_equal = 0;          // NaN on both sides, or the same infinity
  std::int64_t non_finite_mismatches = 0;     // NaN or Inf on one side only, or infinities of different sign
  std::int64_t first_mismatch = -1;
  std::uint64_t worst = 0;        // largest distance
  std::int64_t worst_index = -1;  // ... and where first; -1: nothing was finite

  std::int64_t finite() const { return elements - non_finite_equal - non_finite_mismatches; }
  double share_correctly_rounded() const;  // bin 0 among the finite elements
  bool operator==(const UlpHistogram&) const = default;
};

// What is finite, the share that is correctly rounded, and the bins that are not empty, by their names.
nlohmann::ordered_json to_json(const UlpHistogram& histogram);

// The golden (FP32, same number of elements) is rounded to the candidate's type, bf16, fp16 or fp32, once. -0
// and +0 are no step apart.
UlpHistogram ulp_histogram(const Tensor& golden, const Tensor& candidate);

struct UlpRow {
  std::string name, rfc_row;
  std::vector<DType> dtypes;  // the first one is the default
  std::string inputs;         // what is swept, one line
};
const std::vector<UlpRow>& ulp_rows();

struct UlpRequest {
  std::string row = {};
  std::string dtype = {};  // empty: the row's first
  std::string engine = "cpu";
  std::uint64_t seed = kDefaultSeed;  // of the random inputs
};

struct UlpPlace {
  std::int64_t index = -1;  // flat, in the result
  std::string inputs, expected, got;
};
// Expected and got, with their words; inputs are left to the caller.
UlpPlace place_in(const Tensor& golden, const Tensor& candidate, std::int64_t index);

struct UlpReport {
  UlpRequest request;
  UlpRow row;
  DType dtype = DType::bf16;
  UlpHistogram histogram;
  UlpPlace worst;
};

UlpReport ulp_sweep(const UlpRequest& request);

std::string to_table(const UlpReport& report);
nlohmann::ordered_json to_json(const UlpReport& report);  // schema h3.ulp.v1

}  // namespace h3
