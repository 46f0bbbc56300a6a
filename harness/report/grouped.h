#pragma once

#include <cstdint>
#include <string>

namespace h3 {

std::string grouped(std::int64_t number);  // 33122992896 -> "33,122,992,896"

}  // namespace h3
