// A dump's names file.
#include "conformance/fuzz/target.h"
#include "harness/capsule/dump.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  const fuzz::InputFile input(data, size);
  fuzz::read_or_refuse([&] { read_dump_names(input.path()); });
  return 0;
}
