#include "harness/replay/ulp.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

std::uint32_t word_at(const Tensor& tensor, std::int64_t i) {
  switch (tensor.dtype()) {
    case DType::bf16:
      return std::uint32_t(tensor.data<Bf16>()[i]);
    case DType::fp16:
      return std::uint32_t(tensor.data<Fp16>()[i]);
    case DType::fp32:
      return std::bit_cast<std::uint32_t>(tensor.data<float>()[i]);
    default:
      fail("ulp: {} has no steps to count, expected bf16, fp16 or fp32", name_of(tensor.dtype()));
  }
}

// The words of a type in the order of their numbers, both zeros at 0.
std::int64_t place_of(std::uint32_t word, DType dtype) {
  const std::uint32_t sign = dtype == DType::fp32 ? 0x80000000u : 0x8000u;
  const auto magnitude = std::int64_t(word & (sign - 1));
  return word & sign ? -magnitude : magnitude;
}

std::string text_at(const Tensor& tensor, std::int64_t i) {
  return fmt::format("{} (0x{:0{}x})", tensor.at(i), word_at(tensor, i), 2 * size_of(tensor.dtype()));
}

}  // namespace

int UlpHistogram::bin_of(std::uint64_t distance) {
  return distance == 0 ? 0 : std::bit_width(distance - 1) + 1;
}

std::string UlpHistogram::bin_name(int bin) {
  if (bin < 3) return std::to_string(bin);
  const std::uint64_t last = std::uint64_t(1) << (bin - 1);
  return fmt::format("{}-{}", last / 2 + 1, last);
}

double UlpHistogram::share_correctly_rounded() const {
  return finite() ? double(bins[0]) / double(finite()) : 0;
}

UlpHistogram ulp_histogram(const Tensor& golden, const Tensor& candidate) {
  require(golden.elements() == candidate.elements(), "ulp: the golden is {}, the candidate {}",
          to_string(golden.shape()), to_string(candidate.shape()));
  const DType dtype = candidate.dtype();
  const Tensor expected = golden.to(dtype);
  UlpHistogram found;
  found.elements = candidate.elements();
  for (std::int64_t i = 0; i < found.elements; ++i) {
    const float e = expected.at(i), c = candidate.at(i);
    if (!std::isfinite(e) || !std::isfinite(c)) {
      if (e == c || (std::isnan(e) && std::isnan(c))) {
        ++found.non_finite_equal;
      } else if (++found.non_finite_mismatches == 1) {
        found.first_mismatch = i;
      }
      continue;
    }
    const auto distance = std::uint64_t(
        std::abs(place_of(word_at(expected, i), dtype) - place_of(word_at(candidate, i), dtype)));
    ++found.bins[std::size_t(UlpHistogram::bin_of(distance))];
    if (found.worst_index < 0 || distance > found.worst) found.worst = distance, found.worst_index = i;
  }
  return found;
}

std::string to_table(const UlpReport& report) {
  const UlpHistogram& found = report.histogram;
  std::string out = fmt::format("{} (RFC row {})  {}  engine {}  seed {}\ninputs   {}\n", report.row.name,
                                report.row.rfc_row, name_of(report.dtype), report.request.engine,
                                report.request.seed, report.row.inputs);
  out += fmt::format("results  {}; NaN or Inf in both {}, in one only {}\n\n", found.elements,
                     found.non_finite_equal, found.non_finite_mismatches);
  out += fmt::format("{:>23} {:>12} {:>11}\n", "ulp", "results", "share");
  int last = 0;
  for (int bin = 0; bin < UlpHistogram::kBins; ++bin)
    if (found.bins[std::size_t(bin)]) last = bin;
  for (int bin = 0; bin <= last; ++bin) {
    const double share = found.finite() ? double(found.bins[std::size_t(bin)]) / double(found.finite()) : 0;
    out += fmt::format("{:>23} {:>12} {:>9.4f} % {}\n", UlpHistogram::bin_name(bin),
                       found.bins[std::size_t(bin)], 100 * share, std::string(std::size_t(40 * share), '#'));
  }
  out += fmt::format("\ncorrectly rounded  {:.4f} % of {} finite results\n",
                     100 * found.share_correctly_rounded(), found.finite());
  if (report.worst.index >= 0)
    out += fmt::format("worst              {} ulp at index {}: {}\n                   expected {}, got {}\n",
                       found.worst, report.worst.index, report.worst.inputs, report.worst.expected,
                       report.worst.got);
  if (found.first_mismatch >= 0)
    out += fmt::format("first NaN or Inf in one only: index {}\n", found.first_mismatch);
  return out;
}

Json to_json(const UlpHistogram& found) {
  Json json = {{"finite", found.finite()},
               {"non_finite_equal", found.non_finite_equal},
               {"non_finite_mismatches", found.non_finite_mismatches},
               {"share_correctly_rounded", found.share_correctly_rounded()},
               {"histogram", Json::object()}};
  for (int bin = 0; bin < UlpHistogram::kBins; ++bin)
    if (found.bins[std::size_t(bin)])
      json["histogram"][UlpHistogram::bin_name(bin)] = found.bins[std::size_t(bin)];
  return json;
}

Json to_json(const UlpReport& report) {
  const UlpHistogram& found = report.histogram;
  Json json = {{"schema", "h3.ulp.v1"},
               {"row", report.row.name},
               {"rfc_row", report.row.rfc_row},
               {"dtype", name_of(report.dtype)},
               {"engine", report.request.engine},
               {"seed", report.request.seed},
               {"inputs", report.row.inputs},
               {"elements", found.elements},
               {"first_mismatch", found.first_mismatch < 0 ? Json() : Json(found.first_mismatch)}};
  json.update(to_json(found));
  json["worst"] = nullptr;
  if (report.worst.index >= 0)
    json["worst"] = {{"ulp", found.worst},
                     {"index", report.worst.index},
                     {"inputs", report.worst.inputs},
                     {"expected", report.worst.expected},
                     {"got", report.worst.got}};
  return json;
}

UlpPlace place_in(const Tensor& golden, const Tensor& candidate, std::int64_t index) {
  if (index < 0) return {};
  return {index, {}, text_at(golden.to(candidate.dtype()), index), text_at(candidate, index)};
}

}  // namespace h3
