// A generation's contract, up to the digest of the layout that it asks for.
#include "conformance/fuzz/target.h"
#include "model/generation_contract.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  fuzz::read_or_refuse([&] { parse_contract(fuzz::text(data, size), "contract"); });
  return 0;
}
