#ifdef H3_HAVE_CUDA
#include "harness/execution/cuda_block_backward.h"

#include <ranges>

#include "kernels/cuda/device.h"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"

namespace h3 {

namespace strict = kernels::cuda;

CudaBlockBackward::CudaBlockBackward(CudaBlock& block) : block_(block) {
  const Tensor& log_sum_exp = block.keep_log_sum_exp();
  const auto& nodes = block.graph().nodes;
  const Tensor& output = block.value(nodes.back().name);
  gradients_[nodes.back().name] = cuda::allocate(output.dtype(), output.shape());
  for (const Node& node : std::views::reverse(nodes)) {
    const auto inputs = block.inputs_of(node), parameters = block.parameters_of(node);
    Step& step = steps_[node.name];
    step.gradient = gradients_.at(node.name);
    step.buffers = allocate_backward(node, block.config(), {inputs, parameters, &block.index(), {}});
    if (node.name == "attention") {
      step.buffers.output = block.value(node.name);
      step.buffers.log_sum_exp = log_sum_exp;
    }
    const auto& [of_inputs, of_parameters] = step.buffers.gradients;
    for (std::size_t i = 0; i < node.parameters.size(); ++i)
      gradients_[node.parameters[i]] = of_parameters[i];
    // A residual hands its gradient on as it is.
    if (of_inputs[0].empty()) add(step, node.inputs[0], step.gradient);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (!of_inputs[i].empty()) add(step, node.inputs[i], of_inputs[i]);
  }
  cuda::synchronize();  // the fills of new memory are on the default stream
}

// A sum has memory of its own: both operands are written or read again by other steps, some only in part.
void CudaBlockBackward::add(Step& step, const std::string& value, const Tensor& contribution) {
  const auto [known, first] = gradients_.try_emplace(value, contribution);
  if (first) return;
  step.sums.push_back(
      {known->second, contribution, cuda::allocate(contribution.dtype(), contribution.shape())});
  known->second = step.sums.back().y;
}

void CudaBlockBackward::launch(Stream stream) {
  for (const Node& node : std::views::reverse(block_.graph().nodes)) {
    launch(node, stream);
    for (Sum& sum : steps_.at(node.name).sums) strict::residual(sum.a, sum.b, sum.y, stream);
  }
}

void CudaBlockBackward::launch(const Node& node, Stream stream) {
  const auto inputs = block_.inputs_of(node), parameters = block_.parameters_of(node);
  Step& step = steps_.at(node.name);
  launch_node_backward(node, block_.config(), {inputs, parameters, &block_.index(), {}}, step.gradient,
                       step.buffers, stream);
}

// Of the modulation table's projection: its rows as the product has them, silu(temb) as its input.
CudaBlockBackward::Product CudaBlockBackward::product(const Node& projection) {
  Step& step = steps_.at(projection.name);
  auto& [gradients, workspace, z, dz, output, log_sum_exp] = step.buffers;
  const Tensor& weight = block_.parameter(projection.parameters[0]);
  const bool is_table = !z.empty();
  const Tensor& x = is_table ? z : block_.value(projection.inputs[0]);
  return {step.gradient.reshaped({x.rows(), weight.rows()}), x, weight, is_table ? dz : gradients.inputs[0],
          gradients.parameters[0]};
}

void CudaBlockBackward::launch_input_gradient(const Node& projection, Stream stream) {
  Product p = product(projection);
  strict::linear_input_gradient(p.dy, p.weight, p.dx, stream);
}

void CudaBlockBackward::launch_weight_gradient(const Node& projection, Stream stream) {
  Product p = product(projection);
  strict::linear_weight_gradient(p.dy, p.x, p.dweight, stream);
}

}  // namespace h3
#endif
