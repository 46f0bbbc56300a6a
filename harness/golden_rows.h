// The stored goldens: a few full-width rows of every node of block 0, chained in the golden arithmetic and summed in
// one fixed FP64 order, so that any machine regenerates fixtures/golden.h5 byte for byte.
#pragma once

#include <string>
#include <vector>

namespace h3 {

// Layouts tiny and small; synthetic weights of seed 420. Takes seconds for tiny, below a minute for small.
void write_golden_rows(const std::string& file);

// One line per dataset that differs from the stored file, or is missing on either side.
std::vector<std::string> check_golden_rows(const std::string& file);

}  // namespace h3
