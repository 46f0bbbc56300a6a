// A fixture, a trajectory or a dump: names, shapes, hashes, data and attributes.
#include "fixtures/hdf5.h"

#include "conformance/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  const fuzz::InputFile input(data, size);
  fuzz::read_or_refuse([&] {
    const Hdf5Reader file(input.path());
    fuzz::read_or_refuse([&] { file.string_attribute("/", "exported_by"); });
    fuzz::read_or_refuse([&] { file.int_attribute("/", "seed"); });
    fuzz::read_or_refuse([&] { file.double_attribute("/", "scale"); });
    fuzz::read_or_refuse([&] { file.ints_attribute("/", "shape"); });
    for (const auto& dataset : file.datasets()) {
      fuzz::read_or_refuse([&] { file.shape(dataset); });
      fuzz::read_or_refuse([&] { file.verify(dataset); });
      fuzz::read_or_refuse([&] { file.read(dataset); });
      fuzz::read_or_refuse([&] { file.read_rows(dataset, 0, 1); });
      fuzz::read_or_refuse([&] { file.read_vector<float>(dataset); });
    }
  });
  return 0;
}
