#ifdef H3_HAVE_CUDA
#include "harness/execution/boundary_nodes_cuda.h"

#include <algorithm>

#include "kernels/cuda/device.h"
#include "kernels/final_adaln_out.h"
#include "kernels/fp32_projection.h"
#include "kernels/linear.h"
#include "kernels/packing.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary_tables.h"
#include "kernels/timestep_mlp.h"
#include "kernels/timestep_sinusoid.h"
#include "kernels/widening.h"

namespace h3 {
namespace {

namespace strict = kernels::cuda;

Tensor like(const Tensor& value) { return cuda::allocate(value.dtype(), value.shape()); }
Tensor workspace_of(std::int64_t elements) {
  return cuda::allocate(DType::fp32, {std::max<std::int64_t>(elements, 1)});
}

std::vector<kernels::ModalityRows> modalities(std::span<const Tensor> rows, std::span<const Tensor> indices) {
  return {{rows[0], indices[0]}, {rows[1], indices[1]}, {rows[2], indices[2]}};
}

}  // namespace

Tensor launch_boundary(const Node& node, const Config& config, std::span<const Tensor> in,
                       std::span<const Tensor> parameters) {
  const std::string& n = node.name;
  const auto output = [&](DType dtype, std::int64_t rows) {
    return cuda::allocate(dtype, {rows, node.cols});
  };
  const std::int64_t rows = in[0].shape()[0];
  Tensor y;
  if (n == "timestep_sinusoid") {
    strict::timestep_sinusoid(in[0], y = output(DType::fp32, rows), nullptr);
  } else if (n == "rotary_cos" || n == "rotary_sin") {
    Tensor cos = output(DType::fp32, rows), sin = like(cos);
    strict::rotary_tables(in[0], config.rope_theta, cos, sin, nullptr);
    y = n == "rotary_cos" ? cos : sin;
  } else if (n == "timestep_mlp") {
    Tensor inner = cuda::allocate(DType::fp32, {rows, config.time_embed_hidden_dim});
    strict::timestep_mlp(in[0], parameters[0], parameters[1], parameters[2], parameters[3], inner,
                         y = output(DType::fp32, rows), nullptr);
  } else if (is_fp32_projection(node)) {
    strict::fp32_projection(in[0], parameters[0], parameters[1], y = output(DType::fp32, rows), nullptr);
  } else if (n == "context_embedder") {
    strict::linear(in[0], parameters[0], &parameters[1], y = output(DType::bf16, rows), nullptr);
  } else if (n == "token_refiner.final_norm") {
    strict::rms_norm(in[0], parameters[0], float(config.final_norm_eps), y = output(DType::bf16, rows),
                     nullptr);
  } else if (n == "packing") {
    strict::pack_rows(modalities(in.first(3), in.last(3)),
                      y = output(DType::bf16, in[0].rows() + in[1].rows() + in[2].rows()), nullptr);
  } else if (n == "norm_out_table") {
    Tensor z = cuda::allocate(DType::bf16, in[0].shape());
    strict::final_adaln_table(in[0], parameters[0], parameters[1], z, y = output(DType::bf16, rows), nullptr);
  } else if (n == "norm_out") {
    const cuda::RowIndex index(in[2], in[1].rows());
    strict::final_adaln_out(in[0], parameters[0], float(config.final_norm_eps), in[1], index,
                            y = output(DType::bf16, rows), nullptr);
    cuda::synchronize();  // before the index is gone
  } else if (n == "norm_out_fp32") {
    strict::widening(in[0], y = output(DType::fp32, rows), nullptr);
  } else if (node.row == "row_selection") {
    const cuda::RowIndex index(in[1], rows);
    strict::select_rows(in[0], index, y = output(in[0].dtype(), in[1].elements()), nullptr);
    cuda::synchronize();
  } else {
    fail("engine cuda: boundary node '{}' has no row", n);
  }
  return y;
}

NodeGradients launch_boundary_backward(const Node& node, const Config& config, std::span<const Tensor> in,
                                       std::span<const Tensor> parameters, const Tensor& dy) {
  const std::string& n = node.name;
  NodeGradients g{std::vector<Tensor>(in.size()), {}};
  for (const auto& parameter : parameters) g.parameters.push_back(like(parameter));
  const auto dx = [&]() -> Tensor& { return g.inputs[0] = like(in[0]); };
  const std::int64_t rows = dy.rows();
  Tensor workspace;
  if (n == "timestep_mlp") {
    Tensor h = cuda::allocate(DType::fp32, {rows, config.time_embed_hidden_dim}), inner = like(h),
           dinner = like(h);
    workspace = workspace_of(std::max(strict::linear_bias_workspace(rows, h.cols()),
                                      strict::linear_bias_workspace(rows, dy.cols())));
    strict::timestep_mlp_backward(in[0], parameters[0], parameters[1], parameters[2], dy, h, inner, dinner,
                                  g.parameters[0], g.parameters[1], g.parameters[2], g.parameters[3],
                                  workspace, nullptr);
    cuda::synchronize();
  } else if (is_fp32_projection(node)) {
    workspace = workspace_of(strict::linear_bias_workspace(rows, dy.cols()));
    strict::fp32_input_gradient(dy, parameters[0], dx(), nullptr);
    strict::fp32_weight_gradient(dy, in[0], g.parameters[0], nullptr);
    strict::fp32_bias_gradient(dy, g.parameters[1], workspace, nullptr);
  } else if (n == "context_embedder") {
    workspace = workspace_of(strict::linear_bias_workspace(rows, dy.cols()));
    strict::linear_input_gradient(dy, parameters[0], dx(), nullptr);
    strict::linear_weight_gradient(dy, in[0], g.parameters[0], nullptr);
    strict::linear_bias_gradient(dy, g.parameters[1], workspace, nullptr);
  } else if (n == "token_refiner.final_norm") {
    workspace = workspace_of(strict::rms_norm_workspace(rows, dy.cols()));
    strict::rms_norm_backward(in[0], parameters[0], float(config.final_norm_eps), dy, dx(), g.parameters[0],
                              workspace, nullptr);
  } else if (n == "packing") {
    for (std::size_t i = 0; i < 3; ++i) g.inputs[i] = like(in[i]);
    auto of_modalities = modalities(std::span(g.inputs).first(3), in.last(3));
    strict::pack_rows_backward(dy, of_modalities, nullptr);
  } else if (n == "norm_out_table") {
    Tensor z = cuda::allocate(DType::bf16, in[0].shape()), dz = like(z);
    workspace = workspace_of(strict::linear_bias_workspace(rows, dy.cols()));
    strict::final_adaln_table_backward(in[0], parameters[0], dy, z, dz, dx(), g.parameters[0],
                                       g.parameters[1], workspace, nullptr);
    cuda::synchronize();
  } else if (n == "norm_out") {
    const cuda::RowIndex index(in[2], in[1].rows());
    workspace = workspace_of(strict::modulated_rms_norm_workspace(index, dy.cols()));
    g.inputs[1] = like(in[1]);
    strict::final_adaln_out_backward(in[0], parameters[0], float(config.final_norm_eps), in[1], index, dy,
                                     dx(), g.parameters[0], g.inputs[1], workspace, nullptr);
    cuda::synchronize();
  } else if (n == "norm_out_fp32") {
    strict::widening_backward(dy, dx(), nullptr);
  } else if (node.row == "row_selection") {
    const cuda::RowIndex index(in[1], in[0].rows());
    workspace = workspace_of(index.runs() * dy.cols());
    strict::select_rows_backward(dy, index, dx(), workspace, nullptr);
    cuda::synchronize();
  } else {
    fail("engine cuda: boundary node '{}' has no backward", n);
  }
  cuda::synchronize();  // before the workspace is gone
  return g;
}

}  // namespace h3
#endif
