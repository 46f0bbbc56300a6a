#include <cstring>

#include "harness/execution/boundary_nodes.h"
#include "harness/execution/execution.h"
#include "kernels/adaln_projection.h"
#include "kernels/full_attention.h"
#include "kernels/full_attention_backward.h"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"
#include "kernels/mm_rope.h"
#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary_tables.h"
#include "kernels/swiglu.h"
#include "kernels/timestep_mlp.h"
#include "kernels/timestep_sinusoid.h"

namespace h3 {
namespace {

using kernels::TablePart;

Tensor like(const Tensor& value) { return Tensor(value.dtype(), value.shape()); }

Tensor zeros_like(const Tensor& value) {
  Tensor zeros = like(value);
  std::memset(zeros.bytes(), 0, zeros.size_bytes());
  return zeros;
}

class CpuExecution : public Execution {
 public:
  explicit CpuExecution(const Config& config) : config_(config) {}
  std::string name() const override { return "cpu"; }
  Binding binding(const Node&) const override { return Binding::row; }

  Tensor run(const Node& node, std::span<const Tensor> in,
             std::span<const Tensor> parameters) const override {
    if (is_boundary(node)) return run_boundary(node, config_, in, parameters);
    const std::string& n = node.name;
    const std::int64_t rows = in[0].shape()[0], heads = config_.num_attention_heads,
                       d = config_.attention_head_dim;
    const float norm_eps = float(config_.norm_eps), qk_norm_eps = float(config_.qk_norm_eps);
    const auto part = [&](std::size_t table, Modulation which) {
      return TablePart{in[table], std::int64_t(which)};
    };
    const auto by_head = [&](const Tensor& x) { return x.reshaped({x.shape()[0], heads, d}); };

    Tensor y(node.row == "residual" ? in[0].dtype() : DType::bf16,
             {n == "adaln_projection" ? kTags * rows : rows, node.cols});
    if (n == "adaln_projection") {
      kernels::adaln_projection(in[0], parameters[0], parameters[1], y);
    } else if (node.row == "h3_rmsnorm" && in.size() == 1) {
      kernels::rms_norm(in[0], parameters[0], norm_eps, y);
    } else if (n == "norm1") {
      kernels::modulated_rms_norm(in[0], parameters[0], norm_eps, part(1, Modulation::shift_msa),
                                  part(1, Modulation::scale_msa), in[2], y);
    } else if (n == "norm2") {
      kernels::modulated_rms_norm(in[0], parameters[0], norm_eps, part(1, Modulation::shift_mlp),
                                  part(1, Modulation::scale_mlp), in[2], y);
    } else if (n == "q_norm" || n == "k_norm") {
      y = by_head(y);
      kernels::qk_norm(by_head(in[0]), parameters[0], qk_norm_eps, y);
    } else if (n == "rope_q" || n == "rope_k") {
      y = by_head(y);
      kernels::mm_rope(by_head(in[0]), in[1], in[2], y);
    } else if (n == "attention") {
      kernels::full_attention(by_head(in[0]), by_head(in[1]), by_head(in[2]), y);
    } else if (n == "swiglu") {
      kernels::swiglu(in[0], y);
    } else if (node.row == "residual") {
      kernels::residual(in[0], in[1], y);
    } else if (n == "residual_attn") {
      kernels::gate_residual(in[0], in[1], part(2, Modulation::gate_msa), in[3], y);
    } else if (n == "residual_mlp") {
      kernels::gate_residual(in[0], in[1], part(2, Modulation::gate_mlp), in[3], y);
    } else if (parameters.size() == 1) {
      kernels::linear(in[0], parameters[0], nullptr, y);
    } else {
      fail("engine cpu: node '{}' has no row", n);
    }
    return y;
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> in, std::span<const Tensor> parameters,
                         const Tensor& y, const Tensor& dy) const override {
    if (is_boundary(node)) return boundary_backward(node, config_, in, parameters, dy);
    const std::string& n = node.name;
    const float norm_eps = float(config_.norm_eps), qk_norm_eps = float(config_.qk_norm_eps);
    const auto by_head = [&](const Tensor& x) {
      return x.reshaped({x.shape()[0], config_.num_attention_heads, config_.attention_head_dim});
    };
    NodeGradients g{std::vector<Tensor>(in.size()), {}};
    Tensor& dx = g.inputs[0] = like(in[0]);
    for (const auto& parameter : parameters) g.parameters.push_back(like(parameter));
    // Of the modulation table only the parts that the node reads are written.
    const auto part = [&](const Tensor& table, Modulation which) {
      return TablePart{table, std::int64_t(which)};
    };
    const auto modulated_norm = [&](Modulation shift, Modulation scale) {
      g.inputs[1] = zeros_like(in[1]);
      kernels::modulated_rms_norm_backward(in[0], parameters[0], norm_eps, part(in[1], scale), in[2], dy, dx,
                                           g.parameters[0], part(g.inputs[1], shift),
                                           part(g.inputs[1], scale));
    };
    const auto gated = [&](Modulation which) {
      dx = dy;
      g.inputs[1] = like(in[1]);
      g.inputs[2] = zeros_like(in[2]);
      kernels::gate_residual_backward(in[1], part(in[2], which), in[3], dy, g.inputs[1],
                                      part(g.inputs[2], which));
    };

    if (n == "adaln_projection") {
      kernels::adaln_projection_backward(in[0], parameters[0], dy, dx, g.parameters[0], g.parameters[1]);
    } else if (node.row == "h3_rmsnorm" && in.size() == 1) {
      kernels::rms_norm_backward(in[0], parameters[0], norm_eps, dy, dx, g.parameters[0]);
    } else if (n == "norm1") {
      modulated_norm(Modulation::shift_msa, Modulation::scale_msa);
    } else if (n == "norm2") {
      modulated_norm(Modulation::shift_mlp, Modulation::scale_mlp);
    } else if (n == "q_norm" || n == "k_norm") {
      Tensor heads = by_head(dx);
      kernels::qk_norm_backward(by_head(in[0]), parameters[0], qk_norm_eps, by_head(dy), heads,
                                g.parameters[0]);
    } else if (n == "rope_q" || n == "rope_k") {
      Tensor heads = by_head(dx);
      kernels::mm_rope_backward(by_head(dy), in[1], in[2], heads);
    } else if (n == "attention") {
      const Tensor q = by_head(in[0]), k = by_head(in[1]), v = by_head(in[2]);
      Tensor o = like(y), lse(DType::fp32, {q.shape()[1], q.shape()[0]});
      kernels::full_attention(q, k, v, o, &lse);
      require(std::memcmp(o.bytes(), y.bytes(), y.size_bytes()) == 0,
              "engine cpu: backward of node '{}': its output is not that of these inputs", n);
      g.inputs[1] = like(in[1]);
      g.inputs[2] = like(in[2]);
      Tensor dq = by_head(dx), dk = by_head(g.inputs[1]), dv = by_head(g.inputs[2]);
      kernels::full_attention_backward(q, k, v, o, lse, dy, dq, dk, dv);
    } else if (n == "swiglu") {
      kernels::swiglu_backward(in[0], dy, dx);
    } else if (node.row == "residual") {
      dx = g.inputs[1] = dy;
    } else if (n == "residual_attn") {
      gated(Modulation::gate_msa);
    } else if (n == "residual_mlp") {
      gated(Modulation::gate_mlp);
    } else if (in.size() == 1 && parameters.size() == 1) {
      kernels::linear_input_gradient(dy, parameters[0], dx);
      kernels::linear_weight_gradient(dy, in[0], g.parameters[0]);
    } else {
      fail("engine cpu: node '{}' has no backward", n);
    }
    return g;
  }

  Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                        std::span<const Tensor> time_embedder) const override {
    const std::int64_t steps = timesteps.elements(), rows = positions.rows(), angles = config_.rotary_dim();
    Boundaries made{Tensor(DType::fp32, {steps, config_.freq_dim}),
                    Tensor(DType::fp32, {steps, config_.time_embed_dim}), Tensor(DType::fp32, {rows, angles}),
                    Tensor(DType::fp32, {rows, angles})};
    kernels::timestep_sinusoid(timesteps, made.sinusoid);
    kernels::timestep_mlp(made.sinusoid, time_embedder[0], time_embedder[1], time_embedder[2],
                          time_embedder[3], made.temb);
    kernels::rotary_tables(positions, config_.rope_theta, made.cos, made.sin);
    return made;
  }

 private:
  Config config_;
};

}  // namespace

std::unique_ptr<Execution> cpu_execution(const Config& config) {
  return std::make_unique<CpuExecution>(config);
}

}  // namespace h3
