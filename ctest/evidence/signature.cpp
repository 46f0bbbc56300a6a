#include "ctest/evidence/signature.h"

#include <filesystem>

#include "ctest/child.h"
#include "ctest/evidence/folder.h"
#include "model/error.h"

namespace h3::gate {

namespace fs = std::filesystem;

Signature check_signature(const std::string& folder, const std::string& signers) {
  const std::string sums = fs::absolute(fs::path(folder) / kSumsFile),
                    signature = fs::absolute(fs::path(folder) / kSignatureFile);
  if (!fs::exists(signature)) return {false, false, "not signed"};
  if (signers.empty())
    return {true, false, "signed, not checked: --signers FILE says whose signatures count"};
  require(fs::exists(signers), "{}: no such file of allowed signers", signers);
  std::string identity = output_of({"ssh-keygen", "-Y", "find-principals", "-s", signature, "-f", signers});
  while (identity.ends_with('\n')) identity.pop_back();
  if (identity.empty() || identity.find('\n') != std::string::npos)
    return {true, false, "signature by nobody in " + signers};
  const std::string answer =
      output_of({"sh", "-c", "exec ssh-keygen -Y verify -f \"$1\" -I \"$2\" -n \"$3\" -s \"$4\" <\"$5\"",
                 "ssh-keygen", signers, identity, kSignatureNamespace, signature, sums});
  if (answer.empty()) return {true, false, fmt::format("signature of {} is not valid", identity)};
  return {true, true, "signature valid: " + identity};
}

}  // namespace h3::gate
