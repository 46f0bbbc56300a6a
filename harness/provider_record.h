// What the real provider (diffusers on a Hopper GPU) computed for a block, as recorded in fixtures/block0.h5:
// digests of inputs and nodes, one digest per row, a few full-width rows, and its own error against the same
// module in FP64.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

// Where two tensors first part. `element` is a column of the row; both are -1 when only the fact is known.
struct Drift {
  std::string node;
  std::int64_t row = -1;
  std::int64_t head = -1;
  std::int64_t element = -1;
  std::string detail;
  std::string to_string() const;  // "attention row 17 head 3 element 412: ..."
};

struct ProviderVerdict {
  bool equal = false;                   // all bytes, by SHA-256
  std::int64_t rows_differing = 0;      // by the recorded row digests
  std::int64_t sampled_elements = 0;    // elements of the recorded full-width rows ...
  std::int64_t elements_differing = 0;  // ... and how many of these differ
  std::optional<Drift> first;           // set when not equal
};

struct ProviderNode {
  std::string sha256;
  std::string xxh3_128;
  bool repeats = false;                 // three runs of the provider gave the same bytes
  double relative_l2 = 0, max_abs = 0;  // provider against its own module in FP64
  std::vector<std::uint64_t> row_digests;
  std::vector<std::int64_t> sampled_rows;
  Tensor rows;  // (sampled, cols) BF16
};

class ProviderRecord {
 public:
  // Nothing when there is no file or it holds no such layout. Errors: unreadable or inconsistent file.
  static std::optional<ProviderRecord> load(const std::filesystem::path& file, const std::string& layout);

  // Empty when weights and inputs are those the record was made with; otherwise the first thing that differs.
  std::string mismatch(const std::string& weights, const std::map<std::string, Tensor>& inputs) const;
  const ProviderNode& node(const std::string& name) const;
  ProviderVerdict judge(const Node& node, const Tensor& candidate, const std::string& sha256,
                        std::int64_t head_dim) const;
  // Boundary tensors (timestep_sinusoid, timestep_mlp, rotary_cos, rotary_sin) are recorded as SHA-256 only.
  bool boundary_equal(const std::string& name, const Tensor& tensor) const;
  const std::string& environment() const {
    return environment_;
  }  // "diffusers 0.42.1, torch 2.11.0+cu130, NVIDIA H200"

 private:
  std::string weights_, environment_;
  std::map<std::string, std::string> input_sha256_, boundary_sha256_;
  std::map<std::string, ProviderNode> nodes_;
};

}  // namespace h3
