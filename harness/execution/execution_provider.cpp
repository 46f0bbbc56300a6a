#include "harness/execution/execution_provider.h"

#ifdef H3_HAVE_PROVIDER
#include <algorithm>
#include <string_view>

#include "golden/provider/attention.h"
#include "golden/provider/provider.h"
#include "harness/execution/boundary_nodes.h"
#include "kernels/cuda/device.h"
#endif

namespace h3 {

#ifndef H3_HAVE_PROVIDER

std::unique_ptr<ProviderExecution> provider_execution(const std::string&) {
  fail("provider: this build has no CUDA toolkit with cuBLAS headers, or its strict kernels were left out");
}

#else

namespace {

using golden::provider::Gathered;

class ProviderOnGpu : public ProviderExecution {
 public:
  explicit ProviderOnGpu(const std::string& variant)
      : name_("provider " + variant), provider_(golden::provider::variant_named(variant)) {}
  std::string name() const override { return name_; }
  Binding binding(const Node&) const override { return Binding::native; }

  std::string missing(const Node& node) const override {
    if (node.name == "attention") return golden::provider::attention_missing();
    if (is_boundary(node) && std::ranges::count(kBoundaries, node.name) == 0)
      return "only the BF16 products and norms of the boundaries are replayed";
    return "";
  }

  std::vector<std::pair<std::string, std::string> > libraries() const override {
    const std::string cudnn = golden::provider::cudnn_version();
    return {{"cuBLAS", provider_.products().cublas_version()},
            {"cuBLASLt", provider_.products().cublaslt_version()},
            {"cuDNN", cudnn.empty() ? "missing" : cudnn}};
  }

  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    std::vector<Tensor> in, weights;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].dtype() == DType::i64) require_index(node, inputs[i], inputs[i - 1].rows());
      in.push_back(cuda::upload(inputs[i]));
    }
    for (const auto& parameter : parameters) weights.push_back(cuda::upload(parameter));
    return cuda::download(on_gpu(node, in, weights));
  }

  Boundaries boundaries(const Tensor&, const Tensor&, std::span<const Tensor>) const override {
    fail("provider: boundaries are not replayed, a block starts from recorded or strict ones");
  }

 private:
  static constexpr std::string_view kBoundaries[] = {"context_embedder", "token_refiner.final_norm",
                                                     "norm_out_table", "norm_out"};

  // The modulation table comes before its index.
  static void require_index(const Node& node, const Tensor& index, std::int64_t limit) {
    for (const std::int64_t row : index.values<std::int64_t>())
      require(row >= 0 && row < limit, "provider: node '{}': index {} of a table of {} rows", node.name, row,
              limit);
  }

  Tensor on_gpu(const Node& node, std::span<const Tensor> in, std::span<const Tensor> parameters) const {
    const std::string& n = node.name;
    const auto part = [&](std::size_t table, Modulation which) {
      return Gathered{in[table], std::int64_t(which)};
    };
    const auto by_head = [&](const Tensor& x) {
      return x.reshaped({x.shape()[0], config_.num_attention_heads, config_.attention_head_dim});
    };
    const float norm_eps = float(config_.norm_eps), final_norm_eps = float(config_.final_norm_eps);
    if (n == "adaln_projection") return provider_.adaln_projection(in[0], parameters[0], parameters[1]);
    if (n == "context_embedder") return provider_.linear(in[0], parameters[0], &parameters[1]);
    if (n == "token_refiner.final_norm") return provider_.rms_norm(in[0], parameters[0], final_norm_eps);
    if (n == "norm_out_table") return provider_.modulation_table(in[0], parameters[0], parameters[1]);
    if (n == "norm_out")
      return provider_.modulated_rms_norm(in[0], parameters[0], final_norm_eps, {in[1], 0}, {in[1], 1},
                                          in[2]);
    if (node.row == "h3_rmsnorm" && in.size() == 1) return provider_.rms_norm(in[0], parameters[0], norm_eps);
    if (n == "norm1" && in.size() == 3)
      return provider_.modulated_rms_norm(in[0], parameters[0], norm_eps, part(1, Modulation::shift_msa),
                                          part(1, Modulation::scale_msa), in[2]);
    if (n == "norm2" && in.size() == 3)
      return provider_.modulated_rms_norm(in[0], parameters[0], norm_eps, part(1, Modulation::shift_mlp),
                                          part(1, Modulation::scale_mlp), in[2]);
    if (n == "q_norm" || n == "k_norm")
      return provider_.rms_norm(by_head(in[0]), parameters[0], float(config_.qk_norm_eps));
    if (n == "rope_q" || n == "rope_k") return provider_.rope(by_head(in[0]), in[1], in[2]);
    if (n == "attention") {
      const Tensor o = provider_.attention(by_head(in[0]), by_head(in[1]), by_head(in[2]));
      return o.reshaped({o.shape()[0], node.cols});
    }
    if (n == "swiglu") return provider_.swiglu(in[0]);
    if (node.row == "residual") return provider_.residual(in[0], in[1]);
    if (n == "residual_attn" && in.size() == 4)
      return provider_.gate_residual(in[0], in[1], part(2, Modulation::gate_msa), in[3]);
    if (n == "residual_mlp" && in.size() == 4)
      return provider_.gate_residual(in[0], in[1], part(2, Modulation::gate_mlp), in[3]);
    if (in.size() == 1 && parameters.size() == 1) return provider_.linear(in[0], parameters[0]);
    fail("provider: node '{}' is not replayed", n);
  }

  Config config_;
  std::string name_;
  golden::provider::Provider provider_;
};

}  // namespace

std::unique_ptr<ProviderExecution> provider_execution(const std::string& variant) {
  golden::provider::variant_named(variant);
  if (const std::string why = cuda::why_unavailable(); !why.empty()) fail("provider: {}", why);
  return std::make_unique<ProviderOnGpu>(variant);
}

#endif

}  // namespace h3
