// A block that lies on the GPU: weights, inputs and the output of every node in device memory, launched node
// by node or whole. Only in builds with a CUDA toolkit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/row_index.h"
#include "kernels/cuda/stream.h"
#include "model/checkpoint.h"
#include "model/config.h"
#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

class CudaBlock {
 public:
  CudaBlock(const Config& config, const Graph& graph, const Weights& weights);

  // The graph's inputs by name, on the GPU; adaln_indices (S) i64 on the CPU. Outputs become new, poisoned
  // tensors.
  void take(const std::map<std::string, Tensor>& inputs);
  void poison_outputs();

  // Attention writes its log-sum-exp (heads, S), too: what its backward starts from.
  const Tensor& keep_log_sum_exp();

  const Config& config() const { return config_; }
  const Graph& graph() const { return graph_; }
  const cuda::RowIndex& index() const { return *index_; }
  const Tensor& value(const std::string& name) const { return values_.at(name); }
  const Tensor& parameter(const std::string& name) const { return parameters_.at(name); }
  std::vector<Tensor> inputs_of(const Node& node) const;
  std::vector<Tensor> parameters_of(const Node& node) const;

  // One node, on what its inputs hold. Does not wait.
  void launch(const Node& node, Stream stream);

  // All nodes; q, k and v are one product, their norms and rotations one launch. The outputs of q_norm and
  // k_norm lie inside that launch: they are written only where they are to be kept.
  enum class Norms { kept, not_kept };
  void launch(Norms norms, Stream stream);

 private:
  void launch_projections(Stream stream);
  void launch_norms_and_rotations(Norms norms, Stream stream);

  Config config_;
  Graph graph_;
  std::map<std::string, Tensor> parameters_, values_;
  std::optional<cuda::RowIndex> index_;
  Tensor scratch_, log_sum_exp_;
};

}  // namespace h3
