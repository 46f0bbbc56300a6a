// A gate's ledger, the verdict that follows from it, and the XML that shows it.
#include "harness/report/ledger.h"

#include "conformance/fuzz/target.h"
#include "ctest/junit.h"
#include "ctest/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  const fuzz::InputFile input(data, size);
  fuzz::read_or_refuse([&] {
    gate::junit_xml(
        gate::judge("parallel_nccl", read_ledger(input.path()), {"parallel_nccl/Suite.claim/row"}));
  });
  return 0;
}
