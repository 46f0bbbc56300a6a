// The stored goldens: a few full-width rows of every node of block 0, chained in the golden arithmetic and
// summed in one fixed FP64 order, so that any machine regenerates fixtures/golden.h5 byte for byte.
#pragma once

#include <string>
#include <vector>

namespace h3 {

// Synthetic weights of the default seed. Seconds for tiny, below a minute for small.
inline constexpr const char* kGoldenLayouts[] = {"tiny", "small"};

void write_golden_rows(const std::string& file);

// One line per dataset of the layout that differs from the stored file or is missing in it.
std::vector<std::string> check_golden_rows(const std::string& file, const std::string& layout);

}  // namespace h3
