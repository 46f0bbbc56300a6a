#include "golden/adaln_projection.h"
#include "golden/full_attention.h"
#include "golden/gate_residual.h"
#include "golden/linear.h"
#include "golden/mm_rope.h"
#include "golden/qk_norm.h"
#include "golden/rms_norm.h"
#include "golden/rotary_tables.h"
#include "golden/swiglu.h"
#include "golden/timestep_mlp.h"
#include "golden/timestep_sinusoid.h"
#include "harness/execution.h"

namespace h3 {
namespace {

using Tensors = std::span<const Tensor>;
using golden::Summation;
using golden::TablePart;

// (S, heads * 128) as (S, heads, 128): what the per-head rows take.
Tensor by_head(const Tensor& x, const Config& config) {
  return x.reshaped(
      {x.elements() / config.inner_dim(), config.num_attention_heads, config.attention_head_dim});
}

class GoldenExecution : public Execution {
 public:
  explicit GoldenExecution(bool ordered) : summation_(ordered ? Summation::ordered : Summation::blas) {}
  std::string name() const override { return "golden"; }
  Binding binding(const Node&) const override { return Binding::reference; }

  Tensor run(const Node& node, Tensors in, Tensors parameters) const override {
    const std::string& n = node.name;
    const bool modulated = in.size() == 3 && n.starts_with("norm");
    if (n == "adaln_projection")
      return golden::adaln_projection(in[0], parameters[0], parameters[1], summation_);
    if (n == "norm1" || n == "norm2") {
      if (!modulated) return golden::rms_norm(in[0], parameters[0], config_.norm_eps);
      const bool attention_half = n == "norm1";
      return golden::modulated_rms_norm(
          in[0], parameters[0], config_.norm_eps,
          {in[1], std::int64_t(attention_half ? Modulation::shift_msa : Modulation::shift_mlp)},
          {in[1], std::int64_t(attention_half ? Modulation::scale_msa : Modulation::scale_mlp)}, in[2]);
    }
    if (n == "q_norm" || n == "k_norm")
      return golden::qk_norm(by_head(in[0], config_), parameters[0], config_.qk_norm_eps);
    if (n == "rope_q" || n == "rope_k") return golden::mm_rope(by_head(in[0], config_), in[1], in[2]);
    if (n == "attention")
      return golden::full_attention(by_head(in[0], config_), by_head(in[1], config_),
                                    by_head(in[2], config_));
    if (n == "swiglu") return golden::swiglu(in[0]);
    if (n == "residual_attn" || n == "residual_mlp") {
      if (in.size() == 2) return golden::residual(in[0], in[1]);
      return golden::gate_residual(
          in[0], in[1],
          {in[2], std::int64_t(n == "residual_attn" ? Modulation::gate_msa : Modulation::gate_mlp)}, in[3]);
    }
    if (parameters.size() == 1 && in.size() == 1)
      return golden::linear(in[0], parameters[0], nullptr, summation_);
    fail("golden: node '{}' has no implementation", n);
  }

  Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                        Tensors time_embedder) const override {
    const Tensor sinusoid = golden::timestep_sinusoid(timesteps, config_.freq_dim);
    const auto tables = golden::rotary_tables(
        positions, golden::rotary_frequencies(config_.rope_freq_dim, config_.rope_theta));
    return {sinusoid,
            golden::timestep_mlp(sinusoid, time_embedder[0], time_embedder[1], time_embedder[2],
                                 time_embedder[3]),
            tables.cos, tables.sin};
  }

 private:
  Config config_;
  Summation summation_;
};

}  // namespace

std::unique_ptr<Execution> golden_execution(bool ordered) {
  return std::make_unique<GoldenExecution>(ordered);
}

}  // namespace h3
