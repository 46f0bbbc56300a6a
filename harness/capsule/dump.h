// Tensors that another runtime captured while it ran one block: a safetensors file, or HDF5 by the rules of
// fixtures/hdf5.h. Values go by our names: a graph input ("hidden_states"), a node ("q_proj"), and with
// "gradient." before it what reaches either, or a parameter ("gradient.transformer_blocks.0.norm1.weight").
//
// A names file binds them where the dump calls them otherwise, and says which it does not have:
//   {"schema": "h3.dump_names.v1", "names": {"q_proj": "blocks.0.attn.q"}, "absent": ["norm1"]}
//
// The dump may say of itself, as metadata of the file: layout, layout_sha256, weights, runtime.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

inline constexpr const char* kGradientPrefix = "gradient.";

// What a dump of this graph may hold. Forward: inputs and nodes. Backward: all that has a gradient, in the
// order in which a backward completes it, the output's first.
std::vector<std::string> forward_values(const Graph& graph);
std::vector<std::string> backward_values(const Graph& graph);

struct DumpNames {
  std::map<std::string, std::string> names;  // our value -> tensor of the dump
  std::set<std::string> absent;              // our values that it does not have
};
DumpNames read_dump_names(const std::string& file);

class Dump {
 public:
  // Errors, one line: a file of neither kind, a name of no value, a bound tensor that the dump does not have,
  // a tensor whose name is that of no value (without a names file), a forward value that is neither there nor
  // stated absent; of gradients either none is there or all are that are not stated absent.
  Dump(const std::string& path, const Graph& graph, const std::string& names_file = "");
  ~Dump();

  const std::string& path() const { return path_; }
  bool has(const std::string& value) const { return bound_.contains(value); }
  bool has_gradients() const { return has_gradients_; }
  std::string metadata(const std::string& key) const;  // empty where it says nothing

  // (rows, cols) of this type. Errors, one line: another type, or a shape that has not these rows; extents of
  // 1 in front and columns by head are the same.
  Tensor tensor(const std::string& value, DType dtype, const Shape& shape) const;
  std::int64_t rows(const std::string& value) const;  // outermost extent that is not a 1 in front

 private:
  class File;
  class Safetensors;
  class Hdf5;
  std::string path_;
  std::unique_ptr<File> file_;
  std::map<std::string, std::string> bound_;
  bool has_gradients_ = false;
};

}  // namespace h3
