// safetensors: an 8-byte little-endian header length, a JSON header (name -> dtype, shape, data_offsets),
// then the data. A file is believed only after its header has been held against its size: every tensor lies
// inside, has the bytes its shape needs, and together they cover the data without overlap or gap.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/fingerprint.h"
#include "model/tensor.h"

namespace h3 {

struct StoredTensor {
  std::string name;
  DType dtype = DType::bf16;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

// One file, memory-mapped read-only; do not write through its tensors, and do not shorten the file while they
// live.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const { return size_bytes_; }               // of the whole file
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // in the order of their data
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const StoredTensor* find(const std::string& name) const;  // nullptr when absent

  // A view that keeps the mapping alive; a copy where the data does not lie at a multiple of its element
  // size.
  Tensor tensor(const std::string& name) const;

 private:
  std::string path_;
  std::uint64_t size_bytes_ = 0, data_begin_ = 0;  // size first: mapping the file sets it
  std::shared_ptr<std::byte> mapping_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, std::string> metadata_;
};

// diffusion_pytorch_model.safetensors.index.json: which shard holds which tensor.
struct SafetensorsIndex {
  std::uint64_t total_size = 0;                   // bytes of all tensors
  std::map<std::string, std::string> weight_map;  // tensor -> file name, without folders
};
inline constexpr const char* kIndexName = "diffusion_pytorch_model.safetensors.index.json";
inline constexpr const char* kSingleName = "diffusion_pytorch_model.safetensors";
SafetensorsIndex read_index(const std::string& path);

// A folder with an index and its shards, or with one file and no index.
class SafetensorsFolder {
 public:
  explicit SafetensorsFolder(
      const std::string& folder);  // opens every shard; fails where the index does not fit
  const std::map<std::string, std::shared_ptr<const SafetensorsFile>>& shards() const { return shards_; }
  std::vector<std::string> names() const;  // sorted
  const StoredTensor* find(const std::string& name) const;
  Tensor tensor(const std::string& name) const;

 private:
  const SafetensorsFile* shard_of(const std::string& name) const;
  std::string folder_;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> shards_;
  std::map<std::string, std::string> weight_map_;
};

// ---- writing ----

// Gives the tensor that a spec asks for; called once per tensor, in the order of the file. The previous
// tensor is released before the next call, so at most one is in memory.
using TensorSource = std::function<Tensor(const TensorSpec& spec)>;

// Same input, same bytes. Wide element types come first, then by name, so that every tensor is aligned.
void write_safetensors(const std::string& path, std::vector<TensorSpec> specs, const TensorSource& source,
                       const std::map<std::string, std::string>& metadata = {});

// Shards of at most `shard_bytes` of data (a larger tensor gets its own), closed in the order of `specs`,
// then the index, last: a folder without it is not complete. Refuses a folder that already holds safetensors.
void write_safetensors_folder(const std::string& folder, const std::vector<TensorSpec>& specs,
                              const TensorSource& source, std::uint64_t shard_bytes);

}  // namespace h3
