// Whole files, read and written.
#pragma once

#include <string>

namespace h3 {

std::string read_file(const std::string& path);
void write_file(const std::string& path,
                const std::string& text);  // complete or not at all: temporary, fsync, rename

}  // namespace h3
