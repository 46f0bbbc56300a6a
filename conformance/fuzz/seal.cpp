// An evidence folder's list of hashes, under a seal that fits it: what is wrong with it is said in lines.
#include "ctest/evidence/seal.h"

#include <algorithm>

#include "conformance/fuzz/target.h"
#include "ctest/evidence/folder.h"
#include "model/digest.h"
#include "model/text.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  static const fuzz::InputFolder folder;
  const std::string sums = fuzz::text(data, size);
  folder.write(gate::kSumsFile, sums);
  folder.write(gate::kCompleteFile, sha256_hex(sums) + "  " + gate::kSumsFile + "\n");
  fuzz::read_or_refuse([&] {
    for (const std::string& finding : gate::check_seal(folder.path()))
      if (finding.empty() || finding != one_line(finding)) std::abort();
  });
  return 0;
}
