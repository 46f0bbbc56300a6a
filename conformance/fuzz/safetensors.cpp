// A checkpoint's shard: its header, and every tensor that it promises.
#include "model/safetensors.h"

#include "conformance/fuzz/target.h"
#include "model/digest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  const fuzz::InputFile input(data, size);
  fuzz::read_or_refuse([&] {
    const SafetensorsFile file(input.path());
    for (const StoredTensor& tensor : file.tensors()) xxh3_128_hex(file.tensor(tensor.name).byte_span());
  });
  return 0;
}
