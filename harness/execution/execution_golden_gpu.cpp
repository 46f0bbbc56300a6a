#ifdef H3_HAVE_CUDA
#include <set>

#include "harness/execution/execution_cuda.h"
#include "harness/execution/execution_golden.h"
#include "harness/execution/execution_over.h"
#include "kernels/cuda/device.h"
#include "model/fingerprint.h"

namespace h3 {
namespace {

// Values stay on the CPU, where most nodes are computed; weight matrices and their gradients stay on the GPU.
class GoldenOnGpu : public ExecutionOver {
 public:
  explicit GoldenOnGpu(const Config& config)
      : ExecutionOver(golden_execution(golden::Summation::gpu, config)) {
    for (const TensorSpec& spec : tensor_specs(config))
      if (spec.shape.size() == 2) matrices_.insert(spec.name);
  }
  Tensor fetch(const Tensor& placed) const override {
    return placed.device() == Device::cuda ? cuda::download(placed) : placed;
  }
  Tensor parameter(const Weights& weights, const std::string& name) const override {
    return matrices_.contains(name) ? device_parameter(weights, name) : weights.tensor(name);
  }

 private:
  std::set<std::string> matrices_;
};

}  // namespace

std::unique_ptr<Execution> golden_execution_on_gpu(const Config& config) {
  cuda_device_name();  // an Error without a GPU
  return std::make_unique<GoldenOnGpu>(config);
}

}  // namespace h3
#endif
