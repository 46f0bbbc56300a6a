// A signature of SHA256SUMS, made by ssh-keygen -Y sign with a key that need not be on the machine that ran.
#pragma once

#include <string>

namespace h3::gate {

inline constexpr const char* kSignatureNamespace = "h3-evidence";

struct Signature {
  bool present = false, valid = false;  // valid: checked against the signers, and good
  std::string said;                     // one line
};

// signers: file of allowed signers (ssh-keygen(1)); "" only says whether there is a signature. The signer's
// identity is found by the key.
Signature check_signature(const std::string& folder, const std::string& signers);

}  // namespace h3::gate
