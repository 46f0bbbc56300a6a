// The ledger of an evidence folder, and the files that a reviewer derives from it.
#include "conformance/fuzz/target.h"
#include "ctest/evidence/derived.h"
#include "ctest/evidence/folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  static const fuzz::InputFolder folder;
  folder.write(gate::kRequiredFile, "parallel_nccl/Suite.claim/row\n");
  folder.write(gate::kLedgerFile, fuzz::text(data, size));
  fuzz::read_or_refuse([&] { gate::derive(folder.path()); });
  return 0;
}
