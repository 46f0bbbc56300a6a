#include "conformance/listener.h"

#include <array>
#include <string_view>

namespace h3 {

bool is_allowed_skip(const std::string& message) {
  constexpr std::array<std::string_view, 4> kReasons = {"no_device", "wrong_arch", "too_little_memory",
                                                        "fixture_absent"};
  for (const std::string_view reason : kReasons)
    if (message.starts_with(std::string(reason) + ":")) return true;
  return false;
}

void ConformanceListener::OnTestEnd(const testing::TestInfo& info) {
  const auto& result = *info.result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const auto& part = result.GetTestPartResult(i);
    if (part.skipped() && !is_allowed_skip(part.message())) every_skip_is_allowed_ = false;
  }
}

}  // namespace h3
