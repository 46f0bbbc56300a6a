#ifdef H3_HAVE_CUDA
#include "harness/execution/node_backward_cuda.h"

#include <cstring>

#include "kernels/adaln_projection.h"
#include "kernels/cuda/device.h"
#include "kernels/full_attention.h"
#include "kernels/full_attention_backward.h"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"
#include "kernels/mm_rope.h"
#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"

namespace h3 {
namespace {

namespace strict = kernels::cuda;
using kernels::TablePart;

Tensor like(const Tensor& value) { return cuda::allocate(value.dtype(), value.shape()); }

Tensor zeros_like(const Tensor& value) {
  Tensor zeros(value.dtype(), value.shape());
  std::memset(zeros.bytes(), 0, zeros.size_bytes());
  return cuda::upload(zeros);
}

Tensor by_head(const Tensor& x, const Config& config) {
  return x.reshaped({x.shape()[0], config.num_attention_heads, config.attention_head_dim});
}

bool is_modulated_norm(const Node& node) { return node.row == "h3_rmsnorm" && node.inputs.size() == 3; }

std::int64_t workspace_of(const Node& node, const Config& config, const NodeOperands& operands) {
  const Tensor& x = operands.inputs[0];
  const std::int64_t rows = x.shape()[0], heads = config.num_attention_heads;
  if (node.row == "h3_qk_rmsnorm_d128")
    return strict::rms_norm_workspace(rows * heads, config.attention_head_dim);
  if (is_modulated_norm(node)) return strict::modulated_rms_norm_workspace(*operands.index, x.cols());
  if (node.row == "h3_rmsnorm") return strict::rms_norm_workspace(rows, x.cols());
  if (node.row == "adaln_gate_residual") return strict::gate_residual_workspace(*operands.index, x.cols());
  if (node.name == "adaln_projection")
    return strict::linear_bias_workspace(rows, operands.parameters[1].elements());
  if (node.name == "attention") return strict::full_attention_backward_workspace(rows, heads);
  return 0;
}

}  // namespace

BackwardBuffers allocate_backward(const Node& node, const Config& config, const NodeOperands& operands) {
  const auto& in = operands.inputs;
  BackwardBuffers buffers;
  auto& dx = buffers.gradients.inputs;
  dx.resize(in.size());
  for (const auto& parameter : operands.parameters) buffers.gradients.parameters.push_back(like(parameter));
  if (const std::int64_t elements = workspace_of(node, config, operands); elements > 0)
    buffers.workspace = cuda::allocate(DType::fp32, {elements});

  if (node.row == "residual") return buffers;
  if (node.row == "adaln_gate_residual") {
    dx[1] = like(in[1]);
    dx[2] = zeros_like(in[2]);
    return buffers;
  }
  dx[0] = like(in[0]);
  if (is_modulated_norm(node)) dx[1] = zeros_like(in[1]);
  if (node.name == "adaln_projection")
    buffers.z = cuda::allocate(DType::bf16, in[0].shape()), buffers.dz = like(buffers.z);
  if (node.name == "attention") {
    dx[1] = like(in[1]);
    dx[2] = like(in[2]);
    const std::int64_t rows = in[0].shape()[0];
    buffers.output = cuda::allocate(DType::bf16, {rows, node.cols});
    buffers.log_sum_exp = cuda::allocate(DType::fp32, {config.num_attention_heads, rows});
  }
  return buffers;
}

void attention_forward(const Config& config, const NodeOperands& operands, BackwardBuffers& buffers,
                       Stream stream) {
  const auto& in = operands.inputs;
  strict::full_attention(by_head(in[0], config), by_head(in[1], config), by_head(in[2], config),
                         buffers.output, &buffers.log_sum_exp, stream);
}

void launch_node_backward(const Node& node, const Config& config, const NodeOperands& operands,
                          const Tensor& dy, BackwardBuffers& buffers, Stream stream) {
  const auto& in = operands.inputs;
  const auto& parameters = operands.parameters;
  auto& [dx, dparameters] = buffers.gradients;
  Tensor& workspace = buffers.workspace;
  const std::string& n = node.name;
  const float norm_eps = float(config.norm_eps), qk_norm_eps = float(config.qk_norm_eps);
  const auto part = [](const Tensor& table, Modulation which) {
    return TablePart{table, std::int64_t(which)};
  };
  const auto modulated_norm = [&](Modulation shift, Modulation scale) {
    strict::modulated_rms_norm_backward(in[0], parameters[0], norm_eps, part(in[1], scale), *operands.index,
                                        dy, dx[0], dparameters[0], part(dx[1], shift), part(dx[1], scale),
                                        workspace, stream);
  };
  const auto gated = [&](Modulation which) {
    strict::gate_residual_backward(in[1], part(in[2], which), *operands.index, dy, dx[1], part(dx[2], which),
                                   workspace, stream);
  };

  if (n == "adaln_projection") {
    strict::adaln_projection_backward(in[0], parameters[0], dy, buffers.z, buffers.dz, dx[0], dparameters[0],
                                      dparameters[1], workspace, stream);
  } else if (node.row == "h3_rmsnorm" && in.size() == 1) {
    strict::rms_norm_backward(in[0], parameters[0], norm_eps, dy, dx[0], dparameters[0], workspace, stream);
  } else if (n == "norm1") {
    modulated_norm(Modulation::shift_msa, Modulation::scale_msa);
  } else if (n == "norm2") {
    modulated_norm(Modulation::shift_mlp, Modulation::scale_mlp);
  } else if (node.row == "h3_qk_rmsnorm_d128") {
    Tensor heads = by_head(dx[0], config);
    strict::qk_norm_backward(by_head(in[0], config), parameters[0], qk_norm_eps, by_head(dy, config), heads,
                             dparameters[0], workspace, stream);
  } else if (node.row == "h3_mm_rope_3axis_partial") {
    Tensor heads = by_head(dx[0], config);
    strict::mm_rope_backward(by_head(dy, config), in[1], in[2], heads, stream);
  } else if (n == "attention") {
    Tensor dq = by_head(dx[0], config), dk = by_head(dx[1], config), dv = by_head(dx[2], config);
    strict::full_attention_backward(by_head(in[0], config), by_head(in[1], config), by_head(in[2], config),
                                    buffers.output, buffers.log_sum_exp, dy, dq, dk, dv, workspace, stream);
  } else if (n == "swiglu") {
    strict::swiglu_backward(in[0], dy, dx[0], stream);
  } else if (node.row == "residual") {
    // Both gradients are dy itself.
  } else if (n == "residual_attn") {
    gated(Modulation::gate_msa);
  } else if (n == "residual_mlp") {
    gated(Modulation::gate_mlp);
  } else if (in.size() == 1 && parameters.size() == 1) {
    strict::linear_input_gradient(dy, parameters[0], dx[0], stream);
    strict::linear_weight_gradient(dy, in[0], dparameters[0], stream);
  } else {
    fail("engine cuda: node '{}' has no backward", n);
  }
}

}  // namespace h3
#endif
