// What every table and every JSON of a report is made with.
#pragma once

#include <string>

#include "model/json.h"

namespace h3::report {

using Json = nlohmann::ordered_json;

struct Paint {
  bool colour;
  std::string operator()(bool good, const std::string& text) const;  // green or red, or as it is
};

Json number(double value);  // null where JSON has no such number

}  // namespace h3::report
