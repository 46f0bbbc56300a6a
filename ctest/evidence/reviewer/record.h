// What a ledger of block 0 says, against what fixtures/ recorded of the provider: the digests that equal the
// provider's, of every layout, and the limits, which follow from the provider's own errors.
#pragma once

#include <string>
#include <vector>

#include "ctest/verdict.h"

namespace h3::gate {

struct RecordCheck {
  std::size_t digests = 0, limits = 0;   // compared
  std::vector<std::string> differences;  // one line each
};

// Of gates block0 and block0_cuda; of any other gate nothing is compared.
RecordCheck against_the_record(const Verdict& verdict);

}  // namespace h3::gate
