#include "model/error.h"

#include "model/text.h"

namespace h3 {

Error::Error(const std::string& message) : std::runtime_error(one_line(message)) {}

}  // namespace h3
