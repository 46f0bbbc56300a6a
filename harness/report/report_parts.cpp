#include "harness/report/report_parts.h"

#include <fmt/format.h>

#include <cmath>

namespace h3::report {

std::string Paint::operator()(bool good, const std::string& text) const {
  return colour ? fmt::format("\033[{}m{}\033[0m", good ? 32 : 31, text) : text;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

}  // namespace h3::report
