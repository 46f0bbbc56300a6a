#include "harness/execution/execution_golden.h"

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
#include "harness/execution/boundary_nodes.h"

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

// The parts of the modulation table that a node of the attention or the MLP half reads.
std::int64_t part_of(const std::string& node, Modulation attention, Modulation mlp) {
  return std::int64_t(node == "norm1" || node == "residual_attn" ? attention : mlp);
}
std::int64_t shift_of(const std::string& node) {
  return part_of(node, Modulation::shift_msa, Modulation::shift_mlp);
}
std::int64_t scale_of(const std::string& node) {
  return part_of(node, Modulation::scale_msa, Modulation::scale_mlp);
}
std::int64_t gate_of(const std::string& node) {
  return part_of(node, Modulation::gate_msa, Modulation::gate_mlp);
}

class GoldenExecution : public Execution {
 public:
  GoldenExecution(Summation summation, const Config& config) : config_(config), summation_(summation) {}
  std::string name() const override { return "golden"; }
  Binding binding(const Node&) const override { return Binding::reference; }

  Tensor run(const Node& node, Tensors in, Tensors parameters) const override {
    if (is_boundary(node)) return run_golden_boundary(node, config_, in, parameters, summation_);
    const std::string& n = node.name;
    if (n == "adaln_projection")
      return golden::adaln_projection(in[0], parameters[0], parameters[1], summation_);
    if (n == "norm1" || n == "norm2") {
      if (in.size() == 1) return golden::rms_norm(in[0], parameters[0], config_.norm_eps);
      return golden::modulated_rms_norm(in[0], parameters[0], config_.norm_eps, {in[1], shift_of(n)},
                                        {in[1], scale_of(n)}, in[2]);
    }
    if (n == "q_norm" || n == "k_norm")
      return golden::qk_norm(by_head(in[0], config_), parameters[0], config_.qk_norm_eps);
    if (n == "rope_q" || n == "rope_k") return golden::mm_rope(by_head(in[0], config_), in[1], in[2]);
    if (n == "attention")
      return golden::full_attention(by_head(in[0], config_), by_head(in[1], config_), by_head(in[2], config_),
                                    summation_);
    if (n == "swiglu") return golden::swiglu(in[0]);
    if (n == "residual_attn" || n == "residual_mlp") {
      if (in.size() == 2) return golden::residual(in[0], in[1]);
      return golden::gate_residual(in[0], in[1], {in[2], gate_of(n)}, in[3]);
    }
    if (parameters.size() == 1 && in.size() == 1)
      return golden::linear(in[0], parameters[0], nullptr, summation_);
    fail("golden: node '{}' has no implementation", n);
  }

  NodeGradients backward(const Node& node, Tensors in, Tensors parameters, const Tensor& output,
                         const Tensor& gradient) const override {
    require(gradient.elements() == output.elements(), "golden: gradient {} of node '{}', expected {}",
            to_string(gradient.shape()), node.name, to_string(output.shape()));
    const Tensor dy = gradient.reshaped(output.shape());
    NodeGradients gradients = is_boundary(node)
                                  ? golden_boundary_backward(node, config_, in, parameters, dy, summation_)
                                  : gradients_of(node.name, in, parameters, dy);
    for (std::size_t i = 0; i < in.size(); ++i)
      if (!gradients.inputs[i].empty()) gradients.inputs[i] = gradients.inputs[i].reshaped(in[i].shape());
    return gradients;
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
  NodeGradients gradients_of(const std::string& n, Tensors in, Tensors parameters, const Tensor& dy) const {
    if (n == "adaln_projection") {
      const auto [dtemb, dweight, dbias] =
          golden::adaln_projection_backward(in[0], parameters[0], dy, summation_);
      return {{dtemb}, {dweight, dbias}};
    }
    if (n == "norm1" || n == "norm2") {
      if (in.size() == 1) {
        const auto [dx, dweight] = golden::rms_norm_backward(in[0], parameters[0], config_.norm_eps, dy);
        return {{dx}, {dweight}};
      }
      const auto [dx, dweight, dshift, dscale] = golden::modulated_rms_norm_backward(
          in[0], parameters[0], config_.norm_eps, {in[1], scale_of(n)}, in[2], dy);
      return {{dx, golden::table_gradient(in[1].shape(), {{dshift, shift_of(n)}, {dscale, scale_of(n)}}), {}},
              {dweight}};
    }
    if (n == "q_norm" || n == "k_norm") {
      const auto [dx, dweight] = golden::qk_norm_backward(in[0], parameters[0], config_.qk_norm_eps, dy);
      return {{dx}, {dweight}};
    }
    if (n == "rope_q" || n == "rope_k")
      return {{golden::mm_rope_backward(by_head(dy, config_), in[1], in[2]), {}, {}}, {}};
    if (n == "attention") {
      const auto [dq, dk, dv] = golden::full_attention_backward(
          by_head(in[0], config_), by_head(in[1], config_), by_head(in[2], config_), dy, summation_);
      return {{dq, dk, dv}, {}};
    }
    if (n == "swiglu") return {{golden::swiglu_backward(in[0], dy)}, {}};
    if (n == "residual_attn" || n == "residual_mlp") {
      if (in.size() == 2) return {{dy, dy}, {}};
      const auto [dbranch, dgate] = golden::gate_residual_backward(in[1], {in[2], gate_of(n)}, in[3], dy);
      return {{dy, dbranch, golden::table_gradient(in[2].shape(), {{dgate, gate_of(n)}}), {}}, {}};
    }
    if (parameters.size() == 1 && in.size() == 1) {
      const auto gradients = golden::linear_backward(in[0], parameters[0], dy, summation_);
      return {{gradients.x}, {gradients.weight}};
    }
    fail("golden: node '{}' has no backward", n);
  }

  Config config_;
  Summation summation_;
};

}  // namespace

std::unique_ptr<Execution> golden_execution(Summation summation, const Config& config) {
  return std::make_unique<GoldenExecution>(summation, config);
}

std::unique_ptr<Execution> golden_execution(bool ordered, const Config& config) {
  return golden_execution(ordered ? Summation::ordered : Summation::blas, config);
}

}  // namespace h3
