// H3's projections side by side: the strict row, every tile of it, and the vendor's products of the same
// operands. Whose bytes are equal, and how long each takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/json.h"

namespace h3 {

struct RaceEntry {
  std::string name;                    // "ours", "ours, tile 3", "cuBLAS", "cuBLASLt, no split K"
  std::int64_t differing = 0;          // elements whose bits are not those of "ours"
  std::vector<double> milliseconds{};  // one per round
  double median() const;               // of an even number the upper one
};

struct ProductRace {
  std::string node;  // "q_proj"
  std::int64_t rows = 0, outputs = 0, depth = 0;
  std::vector<RaceEntry> entries;  // the first is "ours"

  double flops() const { return 2.0 * double(rows) * double(outputs) * double(depth); }
  // Time of an entry over that of "ours": above 1, ours is faster.
  double ratio(const RaceEntry& entry) const { return entry.median() / entries.front().median(); }
};

struct RaceReport {
  std::string device, vendor;  // vendor: its version, or why it was left out
  std::int64_t rows = 0;
  int rounds = 0;
  std::uint64_t seed = 0;
  std::vector<ProductRace> products;
};

struct RaceRequest {
  std::int64_t rows = 3160;  // of adaln_projection at most kRaceTimesteps
  int rounds = 15;
  std::uint64_t seed = kDefaultSeed;  // of block 0's synthetic weights and of the normal inputs
};
inline constexpr std::int64_t kRaceTimesteps = 3;

// On a Hopper GPU; elsewhere, or built without a CUDA toolkit, an Error that says why. No bias. Rounds run
// every entry in turn, the second-level cache emptied before each.
RaceReport race_products(const RaceRequest& request);

std::string to_table(const RaceReport& report);
nlohmann::ordered_json to_json(const RaceReport& report);  // schema h3.gemm.v1

}  // namespace h3
