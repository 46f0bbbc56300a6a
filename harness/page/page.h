// The page of a run: what its evidence and its reports say, for people. The same inputs give the same bytes.
#pragma once

#include <string>
#include <vector>

#include "harness/page/parts.h"

namespace h3::page {

inline constexpr std::size_t kMostPageBytes = 2'000'000;

// index.html, style.css and SVG files: no script, no inline style, nothing from elsewhere. `against`: another
// run to compare with, or null. Errors: more than kMostPageBytes together.
std::vector<File> static_page(const Run& run, const Run* against);

// All of it in one file, with a script that searches, filters and sorts. Its content security policy names
// the script by hash, so that nothing else in the file can run.
File one_file(const Run& run, const Run* against);

}  // namespace h3::page
