// A gate's list of required cases.
#include "ctest/required.h"

#include "conformance/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  const fuzz::InputFile input(data, size);
  fuzz::read_or_refuse([&] { gate::read_required(input.path()); });
  return 0;
}
