#include "harness/execution.h"
#include "kernels/adaln_projection.h"
#include "kernels/full_attention.h"
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

class CpuExecution : public Execution {
 public:
  std::string name() const override { return "cpu"; }
  Binding binding(const Node&) const override { return Binding::row; }

  Tensor run(const Node& node, std::span<const Tensor> in,
             std::span<const Tensor> parameters) const override {
    const std::string& n = node.name;
    const std::int64_t rows = in[0].shape()[0], heads = config_.num_attention_heads,
                       d = config_.attention_head_dim;
    const float norm_eps = float(config_.norm_eps), qk_norm_eps = float(config_.qk_norm_eps);
    const auto part = [&](std::size_t table, Modulation which) {
      return TablePart{in[table], std::int64_t(which)};
    };
    const auto by_head = [&](const Tensor& x) { return x.reshaped({x.shape()[0], heads, d}); };

    Tensor y(DType::bf16, {n == "adaln_projection" ? kTags * rows : rows, node.cols});
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

std::unique_ptr<Execution> cpu_execution() { return std::make_unique<CpuExecution>(); }

}  // namespace h3
