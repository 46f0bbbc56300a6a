#include "harness/report/grouped.h"

namespace h3 {

std::string grouped(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first_digit = number < 0;
  for (std::size_t i = text.size(); i > first_digit + 3;) text.insert(i -= 3, 1, ',');
  return text;
}

}  // namespace h3
