// A report that a command wrote, and the page that shows it.
#include "harness/page/page.h"

#include "conformance/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  const fuzz::InputFile input(data, size);
  fuzz::read_or_refuse([&] {
    const page::Run run({input.path()});
    page::static_page(run, nullptr);
    page::one_file(run, nullptr);
  });
  return 0;
}
