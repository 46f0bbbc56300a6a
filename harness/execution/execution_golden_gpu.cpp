#ifdef H3_HAVE_CUDA
#include <set>

#include "harness/execution/execution_cuda.h"
#include "harness/execution/execution_golden.h"
#include "kernels/cuda/device.h"
#include "model/fingerprint.h"

namespace h3 {
namespace {

// Values stay on the CPU, where most nodes are computed; weight matrices and their gradients stay on the GPU.
class GoldenOnGpu : public Execution {
 public:
  explicit GoldenOnGpu(const Config& config) : golden_(golden_execution(golden::Summation::gpu, config)) {
    for (const TensorSpec& spec : tensor_specs(config))
      if (spec.shape.size() == 2) matrices_.insert(spec.name);
  }
  std::string name() const override { return golden_->name(); }
  Binding binding(const Node& node) const override { return golden_->binding(node); }
  Tensor fetch(const Tensor& placed) const override {
    return placed.device() == Device::cuda ? cuda::download(placed) : placed;
  }
  Tensor parameter(const Weights& weights, const std::string& name) const override {
    return matrices_.contains(name) ? device_parameter(weights, name) : weights.tensor(name);
  }
  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    return golden_->run(node, inputs, parameters);
  }
  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    return golden_->backward(node, inputs, parameters, output, gradient);
  }
  Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                        std::span<const Tensor> time_embedder) const override {
    return golden_->boundaries(timesteps, positions, time_embedder);
  }

 private:
  std::unique_ptr<Execution> golden_;
  std::set<std::string> matrices_;
};

}  // namespace

std::unique_ptr<Execution> golden_execution_on_gpu(const Config& config) {
  cuda_device_name();  // an Error without a GPU
  return std::make_unique<GoldenOnGpu>(config);
}

}  // namespace h3
#endif
