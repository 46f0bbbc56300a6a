// What the real provider (diffusers on a Hopper GPU) computed for a block, as recorded in fixtures/block0.h5
// (its nodes) and fixtures/block0_backward.h5 (its gradients): digests of the whole and of rows, a few
// full-width rows, and its own error against the same module in FP64.
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

struct Bound;  // harness/compare/compare.h

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
  std::int64_t rows_differing = 0;      // by the recorded digests, of which each covers a row or a few
  std::int64_t sampled_elements = 0;    // elements of the recorded full-width rows ...
  std::int64_t elements_differing = 0;  // ... and how many of these differ
  std::optional<Drift> first;           // set when not equal
};

// The bytes of a tensor, (rows, cols), as far as they are recorded.
struct RecordedBytes {
  DType dtype = DType::bf16;
  std::int64_t height = 0;  // rows of the whole
  std::string sha256 = {};
  std::string xxh3_128 = {};
  std::int64_t rows_per_digest = 1;
  std::vector<std::uint64_t> row_digests = {};
  std::vector<std::int64_t> sampled_rows = {};
  Tensor rows = {};  // (sampled, cols)
};

// head_dim 0: the tensor has no heads.
ProviderVerdict judge(const std::string& name, const RecordedBytes& recorded, const Tensor& candidate,
                      const std::string& sha256, std::int64_t head_dim);

struct ProviderNode : RecordedBytes {
  bool repeats = false;                 // three runs of the provider gave the same bytes
  double relative_l2 = 0, max_abs = 0;  // provider against its own module in FP64

  // How far a candidate may be from the golden, relative L2: 1.25 times as far as the provider is, and 1e-3.
  double bound() const { return 1.25 * relative_l2 + 1e-3; }
};

// A gradient; of several runs the largest errors. Where the runs differ, no bytes are recorded: cuDNN's
// attention and index_select's backward add up with atomics.
struct ProviderGradient {
  DType dtype = DType::bf16;
  Shape shape = {};                         // (rows, cols)
  std::int64_t elements_moved = 0;          // between the runs
  std::optional<RecordedBytes> bytes = {};  // when none moved
  double relative_l2 = 0, max_abs = 0, absmax = 0;
  std::uint64_t max_ulp = 0;  // steps to the rounded FP64 gradient; large where that is near zero

  // How far a candidate may be from the FP64 gradient: 1.5 times as far as the provider is, and 5e-3. That
  // holds for the relative L2 error and for the largest error over the largest gradient, but a few elements
  // of a BF16 gradient may round to another word on the way: of the largest error 6 ulps more than the
  // provider's are accepted, too. The ulp is that of the largest gradient, as the error is relative to it.
  Bound bound() const;
};

// The head of a layout in either file.
struct ProviderSource {
  std::string weights;
  std::string environment;  // "diffusers 0.42.1, torch 2.11.0+cu130, NVIDIA H200"
  std::map<std::string, std::string> input_sha256;

  // Empty when weights and inputs are those the record was made with; otherwise the first thing that differs.
  std::string mismatch(const std::string& weights, const std::map<std::string, Tensor>& inputs) const;
};

class ProviderRecord {
 public:
  // Nothing when there is no file or it holds no such layout. Errors: unreadable or inconsistent file.
  static std::optional<ProviderRecord> load(const std::filesystem::path& file, const std::string& layout);

  std::string mismatch(const std::string& weights, const std::map<std::string, Tensor>& inputs) const {
    return source_.mismatch(weights, inputs);
  }
  const ProviderNode& node(const std::string& name) const;
  ProviderVerdict judge(const Node& node, const Tensor& candidate, const std::string& sha256,
                        std::int64_t head_dim) const;
  // Boundary tensors (timestep_sinusoid, timestep_mlp, rotary_cos, rotary_sin) are recorded as SHA-256 only.
  bool boundary_equal(const std::string& name, const Tensor& tensor) const;
  const std::string& environment() const { return source_.environment; }

 private:
  ProviderSource source_;
  std::map<std::string, std::string> boundary_sha256_;
  std::map<std::string, ProviderNode> nodes_;
};

// The gradients of a backward, by name: the 17 nodes (what reaches their outputs, all of it), hidden_states,
// temb, and the parameters by their full names.
class ProviderGradients {
 public:
  static std::optional<ProviderGradients> load(const std::filesystem::path& file, const std::string& layout);

  std::string mismatch(const std::string& weights, const std::map<std::string, Tensor>& inputs) const {
    return source_.mismatch(weights, inputs);
  }
  const std::map<std::string, ProviderGradient>& all() const { return gradients_; }
  const ProviderGradient& gradient(const std::string& name) const;
  // Nothing when the provider's own runs differ: no candidate can be equal to all of them.
  std::optional<ProviderVerdict> judge(const std::string& name, const Tensor& candidate,
                                       const std::string& sha256, std::int64_t head_dim) const;
  const std::string& environment() const { return source_.environment; }

 private:
  ProviderSource source_;
  std::map<std::string, ProviderGradient> gradients_;
};

}  // namespace h3
