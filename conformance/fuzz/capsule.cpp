// A capsule's description, beside operands that are what they are, up to the replay of its drift. (The file
// itself is read as every HDF5 file is: target hdf5.)
#include "harness/capsule/capsule.h"

#include <algorithm>

#include "conformance/fuzz/target.h"
#include "fixtures/hdf5.h"

namespace {

h3::Tensor some(h3::DType dtype, h3::Shape shape) {
  h3::Tensor tensor(dtype, std::move(shape));
  std::fill_n(tensor.bytes(), tensor.size_bytes(), std::byte(dtype == h3::DType::i64 ? 0 : 0x3e));
  return tensor;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  if (size == 0) return 0;  // no dataset
  static const fuzz::InputFolder folder;
  static const Tensor rows = some(DType::bf16, {2, 16}), table = some(DType::bf16, {3, 96}),
                      index = some(DType::i64, {2}), weight = some(DType::bf16, {16});
  const std::string path = folder.path() + "/capsule.h5";
  {
    Hdf5Writer file(path);
    file.write_vector("description", std::span(data, size), {std::int64_t(size)});
    for (const char* call : {"calls/0/", "calls/1/"}) {
      const std::string root = call;
      for (const auto& [name, tensor] : {std::pair("inputs/0", rows),
                                         {"inputs/1", rows},
                                         {"inputs/2", table},
                                         {"inputs/3", index},
                                         {"parameters/0", weight},
                                         {"gradient", rows}})
        file.write(root + name, tensor);
    }
    file.write("expected", rows);
    file.write("found", rows);
    file.close();
  }
  fuzz::read_or_refuse([&] {
    const Capsule capsule = read_capsule(path);
    to_text(capsule, replay_capsule(capsule), false);
  });
  return 0;
}
