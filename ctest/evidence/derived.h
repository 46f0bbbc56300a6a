// Everything in an evidence folder that follows from what happened: a pure function of ledger, list of
// required cases and output. The gate writes it, a reviewer derives it again and compares the bytes.
#pragma once

#include <map>
#include <string>

#include "ctest/required.h"
#include "ctest/verdict.h"

namespace h3::gate {

struct Derived {
  Ledger ledger;
  RequiredList required;
  Verdict verdict;
  std::map<std::string, std::string> files;  // bytes by name (ctest/evidence/folder.h)
};

// Errors: a file that cannot be read, a list that names no case.
Derived derive(const std::string& folder);

}  // namespace h3::gate
