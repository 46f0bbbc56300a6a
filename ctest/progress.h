// Shows a person how far a run is, from its ledger. On a terminal: one line that is rewritten. Otherwise a
// line at every tenth of the way and one for each case that does not pass: few enough that the last line
// survives the 1,024 bytes which CTest keeps of a passing test.
#pragma once

#include <fstream>
#include <string>

namespace h3::gate {

class Progress {
 public:
  Progress(std::string gate, std::string ledger, std::size_t expected);
  void look();    // reads what the ledger gained since the last look
  void finish();  // leaves the cursor on an empty line

 private:
  void show_case_end(const std::string& name, const std::string& outcome);

  std::string gate_, ledger_, current_;
  std::size_t expected_, done_ = 0, red_ = 0;
  std::streamoff seen_ = 0;
  bool terminal_;
};

}  // namespace h3::gate
