#include "conformance/claims.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace h3 {
namespace {

constexpr std::size_t kBand = 4096;  // bytes on each side, so that the inside keeps the alignment of a tensor
constexpr std::byte kGuard{0x5A};

std::string rerun_command() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  if (!info) return "";
  return fmt::format("rerun: h3_conformance --gtest_filter='{}.{}'", info->test_suite_name(), info->name());
}

// How much of its limit an earlier claim of this case used; -1 when there was none.
double recorded_use() {
  const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
  if (!info) return -1;
  double limit = 0, measured = -1;
  for (int i = 0; i < info->result()->test_property_count(); ++i) {
    const testing::TestProperty& property = info->result()->GetTestProperty(i);
    if (std::strcmp(property.key(), "limit") == 0) limit = std::strtod(property.value(), nullptr);
    if (std::strcmp(property.key(), "measured") == 0) measured = std::strtod(property.value(), nullptr);
  }
  return measured <= 0 ? measured : measured / limit;
}

void record(const Judgement& judgement) {
  const double use = judgement.measured == 0 ? 0 : judgement.measured / judgement.limit;
  if (judgement.accepted && use < recorded_use()) return;
  const std::string prefix = judgement.accepted ? "" : "rejected_";
  testing::Test::RecordProperty(judgement.accepted ? "metric" : "rejected_by", judgement.metric);
  testing::Test::RecordProperty(prefix + "limit", fmt::format("{:.9g}", judgement.limit));
  testing::Test::RecordProperty(prefix + "measured", fmt::format("{:.9g}", judgement.measured));
}

testing::AssertionResult answer(const Judgement& judgement, const Comparison& comparison,
                                const Tensor& expected, const Tensor& actual) {
  record(judgement);
  if (judgement.accepted) return testing::AssertionSuccess() << judgement.reason;
  return testing::AssertionFailure() << judgement.reason << "\n"
                                     << describe(comparison, expected, actual) << rerun_command();
}

}  // namespace

testing::AssertionResult bitwise_equal(const Tensor& expected, const Tensor& actual) {
  Comparison comparison = compare(expected, actual);
  if (comparison.mismatch.empty() && expected.dtype() != actual.dtype())
    comparison.mismatch =
        fmt::format("types differ: expected {}, got {}", name_of(expected.dtype()), name_of(actual.dtype()));
  Judgement judgement{comparison.same_bits(), "bitwise", 0, double(comparison.differing), ""};
  if (!comparison.mismatch.empty()) {
    judgement.measured = 1;
    judgement.reason = comparison.mismatch;
  } else if (comparison.unwritten > 0) {
    judgement.measured = double(comparison.unwritten);
    judgement.reason = fmt::format("{} of {} elements were never written, the first is {}",
                                   comparison.unwritten, comparison.elements, comparison.first_unwritten);
  } else {
    judgement.reason =
        fmt::format("{} of {} words differ, limit 0", comparison.differing, comparison.elements);
  }
  return answer(judgement, comparison, expected, actual);
}

testing::AssertionResult within(const Bound& bound, const Tensor& golden, const Tensor& actual) {
  const Comparison comparison = compare(golden, actual);
  return answer(judge(bound, comparison), comparison, golden, actual);
}

GuardedOutput::GuardedOutput(DType dtype, Shape shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  size_bytes_ = std::size_t(elements) * size_of(dtype);
  const std::size_t total = (size_bytes_ + 2 * kBand + kBand - 1) / kBand * kBand;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kBand, total)), &std::free);
  require(memory_ != nullptr, "guarded output: no memory for {} bytes", total);
  std::memset(memory_.get(), int(kGuard), total);
  std::memset(memory_.get() + kBand, 0xFF, size_bytes_);  // the poison of a new tensor
  inside_ = Tensor(dtype, std::move(shape), std::shared_ptr<std::byte>(memory_, memory_.get() + kBand));
}

testing::AssertionResult GuardedOutput::nothing_written_outside() const {
  const std::byte* inside = memory_.get() + kBand;
  for (std::size_t i = 0; i < kBand; ++i) {
    if (inside[-1 - std::ptrdiff_t(i)] != kGuard)
      return testing::AssertionFailure() << "byte " << i + 1 << " before the output was overwritten\n"
                                         << rerun_command();
    if (inside[size_bytes_ + i] != kGuard)
      return testing::AssertionFailure() << "byte " << i << " after the output was overwritten\n"
                                         << rerun_command();
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult GuardedOutput::everything_written_inside() const {
  const Comparison comparison = compare(inside_, inside_);
  if (!comparison.mismatch.empty()) return testing::AssertionFailure() << comparison.mismatch;
  if (comparison.unwritten == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << comparison.unwritten << " of " << comparison.elements
                                     << " elements were never written, the first is element "
                                     << comparison.first_unwritten << "\n"
                                     << rerun_command();
}

}  // namespace h3
