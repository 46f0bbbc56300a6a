// One node, one execution, one tensor: the interface behind which the candidate's rows, the golden and the
// provider's record stand side by side.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/checkpoint.h"
#include "model/graph.h"
#include "model/tensor.h"

namespace h3 {

// What computed a node.
enum class Binding { row, interim, reference, native, candidate };
const char* name_of(Binding binding);

// Of a run: a strict one is accepted only when every node is `row`; one of somebody else's kernels when every
// node is `row` or `candidate`.
struct Bindings {
  std::int64_t row = 0, candidate = 0, nodes = 0;
  void count(Binding binding);
  bool complete() const { return nodes > 0 && row + candidate == nodes; }
};

// What a block needs besides its packed rows, FP32.
struct Boundaries {
  Tensor sinusoid;  // (U, freq_dim)
  Tensor temb;      // (U, time_embed_dim)
  Tensor cos, sin;  // (S, rotary_dim)
};

// What one node's backward gives, in the node's own order and shaped like what it belongs to. An empty tensor
// where there is no gradient: indices, rotary tables.
struct NodeGradients {
  std::vector<Tensor> inputs, parameters;
};

// Operands may lie on the CPU or where the execution keeps its tensors (place); results lie where one of the
// inputs does, on the CPU if all of them do. Indices and positions (i64, fp64) stay on the CPU.
class Execution {
 public:
  virtual ~Execution() = default;
  virtual std::string name() const = 0;
  virtual Device device() const { return Device::cpu; }  // where it keeps its tensors
  virtual Binding binding(const Node& node) const = 0;
  virtual Binding backward_binding(const Node& node) const { return binding(node); }
  // To where the execution keeps its tensors, and back to the CPU. On a CPU both are the tensor itself.
  virtual Tensor place(const Tensor& on_cpu) const { return on_cpu; }
  virtual Tensor fetch(const Tensor& placed) const { return placed; }
  // Until all that was launched is done; an asynchronous failure becomes an Error here.
  virtual void wait() const {}
  virtual Tensor parameter(const Weights& weights, const std::string& name) const {
    return place(weights.tensor(name));
  }
  // Inputs and parameters in the node's own order. A node without an implementation is an Error, never a
  // fallback.
  virtual Tensor run(const Node& node, std::span<const Tensor> inputs,
                     std::span<const Tensor> parameters) const = 0;
  // Gradients of a loss whose gradient at the node's output is `gradient`. `output` is what run() gave for
  // these inputs. The gradient of a modulation table is zero in the parts that the node does not read.
  virtual NodeGradients backward(const Node& node, std::span<const Tensor> inputs,
                                 std::span<const Tensor> parameters, const Tensor& output,
                                 const Tensor& gradient) const;
  // timesteps (U) and positions (S,3) of a layout; time_embedder: weight and bias of its two linears.
  virtual Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                                std::span<const Tensor> time_embedder) const = 0;
};

// The strict rows' CPU twins: BF16 between nodes, the bytes that a Hopper GPU computes.
std::unique_ptr<Execution> cpu_execution(const Config& config = {});

// The strict rows on this machine's Hopper GPU. Without one, or built without a CUDA toolkit: an Error that
// says why.
std::unique_ptr<Execution> cuda_execution(const Config& config = {});
std::string cuda_device_name();  // "NVIDIA H200"; an Error likewise

// "cpu", "cuda", or the path of a candidate, a shared library (harness/execution/execution_candidate.h): it
// ends in ".so".
std::unique_ptr<Execution> engine_named(const std::string& name, const Config& config = {});

// FP32 between nodes (FP64 for FP64 inputs), FP64 accumulation. `ordered` sums in one fixed order (byte for
// byte on any machine); otherwise the large products go through a BLAS.
std::unique_ptr<Execution> golden_execution(bool ordered, const Config& config = {});

// The same with weight matrices and large sums on this machine's GPU (cuBLAS, FP64), for sizes that a CPU
// does not compute in minutes. Gradients of weights stay there. An Error without one.
std::unique_ptr<Execution> golden_execution_on_gpu(const Config& config = {});

}  // namespace h3
