// What a reviewer can check of an evidence folder without the machine that made it. Nothing in the folder is
// believed: the seal is closed, the ledger's chain is whole, and everything else follows from it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ctest/evidence/derived.h"

namespace h3::gate {

struct Expected {
  std::string gate;      // "" accepts any
  std::string required;  // file with the list that must have been required; "" accepts the folder's
};

struct Verification {
  // Why the folder is refused, one line each, beginning with the name of the file. The checks go from the
  // outside in and stop at the first that finds something: what follows from it would only repeat it.
  std::vector<std::string> refusals;
  Derived derived;  // of a folder whose seal is whole
};

// Never throws for what the folder holds. Errors: there is no such folder.
Verification verify(const std::string& folder, const Expected& expected = {});

}  // namespace h3::gate
