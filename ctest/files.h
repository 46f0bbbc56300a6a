// A small file as it is; model/atomic_file.h writes one.
#pragma once

#include <string>

namespace h3::gate {

std::string read_file(const std::string& path);

}  // namespace h3::gate
