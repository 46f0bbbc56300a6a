// ctest/required/<gate>.txt: the cases that close a gate, frozen before the run, one name a line, sorted. A
// line that starts with # is a comment.
#pragma once

#include <string>
#include <vector>

namespace h3::gate {

struct RequiredList {
  std::vector<std::string> cases;
  std::string text;    // the file as it is
  std::string sha256;  // of that text
};

RequiredList read_required(const std::string& path);

// The cases of `binary` whose names start with "<gate>/", as `--gtest_list_tests` shows them. Throws for a
// disabled case, for a name outside of [A-Za-z0-9_], and when there is none.
std::vector<std::string> cases_of(const std::string& binary, const std::string& gate);

void write_required(const std::string& path, const std::string& gate, std::vector<std::string> cases);

}  // namespace h3::gate
