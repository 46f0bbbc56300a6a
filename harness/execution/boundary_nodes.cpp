#include "harness/execution/boundary_nodes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/execution/node_output.h"
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

constexpr std::array<std::string_view, 16> kBoundaryNodes = {
    "timestep_sinusoid", "rotary_cos",    "rotary_sin",
    "timestep_mlp",      "video_in_proj", "audio_in_proj",
    "context_embedder",  "packing",       "token_refiner.final_norm",
    "norm_out_table",    "norm_out",      "norm_out_fp32",
    "video_out_proj",    "video_output",  "audio_out_proj",
    "audio_output"};

Tensor like(const Tensor& value) { return Tensor(value.dtype(), value.shape()); }

// Rows of the three modalities and their indices, as the node packing takes them.
std::vector<kernels::ModalityRows> modalities(std::span<const Tensor> rows, std::span<const Tensor> indices) {
  return {{rows[0], indices[0]}, {rows[1], indices[1]}, {rows[2], indices[2]}};
}

}  // namespace

bool is_boundary(const Node& node) { return std::ranges::count(kBoundaryNodes, node.name) > 0; }

bool is_fp32_projection(const Node& node) {
  return node.name == "video_in_proj" || node.name == "audio_in_proj" || node.row == "fp32_output_head";
}

Tensor run_boundary(const Node& node, const Config& config, std::span<const Tensor> in,
                    std::span<const Tensor> parameters) {
  const std::string& n = node.name;
  Tensor y = output_of(node, config, in);
  if (n == "timestep_sinusoid") {
    kernels::timestep_sinusoid(in[0], y);
  } else if (n == "rotary_cos" || n == "rotary_sin") {
    Tensor other = like(y);
    const bool is_cos = n == "rotary_cos";
    kernels::rotary_tables(in[0], config.rope_theta, is_cos ? y : other, is_cos ? other : y);
  } else if (n == "timestep_mlp") {
    kernels::timestep_mlp(in[0], parameters[0], parameters[1], parameters[2], parameters[3], y);
  } else if (is_fp32_projection(node)) {
    kernels::fp32_projection(in[0], parameters[0], parameters[1], y);
  } else if (n == "context_embedder") {
    kernels::linear(in[0], parameters[0], &parameters[1], y);
  } else if (n == "token_refiner.final_norm") {
    kernels::rms_norm(in[0], parameters[0], float(config.final_norm_eps), y);
  } else if (n == "packing") {
    kernels::pack_rows(modalities(in.first(3), in.last(3)), y);
  } else if (n == "norm_out_table") {
    kernels::final_adaln_table(in[0], parameters[0], parameters[1], y);
  } else if (n == "norm_out") {
    kernels::final_adaln_out(in[0], parameters[0], float(config.final_norm_eps), in[1], in[2], y);
  } else if (n == "norm_out_fp32") {
    kernels::widening(in[0], y);
  } else if (node.row == "row_selection") {
    kernels::select_rows(in[0], in[1], y);
  } else {
    fail("engine cpu: boundary node '{}' has no row", n);
  }
  return y;
}

NodeGradients boundary_backward(const Node& node, const Config& config, std::span<const Tensor> in,
                                std::span<const Tensor> parameters, const Tensor& dy) {
  const std::string& n = node.name;
  NodeGradients g{std::vector<Tensor>(in.size()), {}};
  for (const auto& parameter : parameters) g.parameters.push_back(like(parameter));
  const auto dx = [&]() -> Tensor& { return g.inputs[0] = like(in[0]); };
  if (n == "timestep_mlp") {
    kernels::timestep_mlp_backward(in[0], parameters[0], parameters[1], parameters[2], dy, g.parameters[0],
                                   g.parameters[1], g.parameters[2], g.parameters[3]);
  } else if (is_fp32_projection(node)) {
    kernels::fp32_input_gradient(dy, parameters[0], dx());
    kernels::fp32_weight_gradient(dy, in[0], g.parameters[0]);
    kernels::fp32_bias_gradient(dy, g.parameters[1]);
  } else if (n == "context_embedder") {
    kernels::linear_input_gradient(dy, parameters[0], dx());
    kernels::linear_weight_gradient(dy, in[0], g.parameters[0]);
    kernels::linear_bias_gradient(dy, g.parameters[1]);
  } else if (n == "token_refiner.final_norm") {
    kernels::rms_norm_backward(in[0], parameters[0], float(config.final_norm_eps), dy, dx(), g.parameters[0]);
  } else if (n == "packing") {
    for (std::size_t i = 0; i < 3; ++i) g.inputs[i] = like(in[i]);
    auto rows = modalities(std::span(g.inputs).first(3), in.last(3));
    kernels::pack_rows_backward(dy, rows);
  } else if (n == "norm_out_table") {
    kernels::final_adaln_table_backward(in[0], parameters[0], dy, dx(), g.parameters[0], g.parameters[1]);
  } else if (n == "norm_out") {
    g.inputs[1] = like(in[1]);
    kernels::final_adaln_out_backward(in[0], parameters[0], float(config.final_norm_eps), in[1], in[2], dy,
                                      dx(), g.parameters[0], g.inputs[1]);
  } else if (n == "norm_out_fp32") {
    kernels::widening_backward(dy, dx());
  } else if (node.row == "row_selection") {
    kernels::select_rows_backward(dy, in[1], dx());
  } else {
    fail("engine cpu: boundary node '{}' has no backward", n);
  }
  return g;
}

}  // namespace h3
