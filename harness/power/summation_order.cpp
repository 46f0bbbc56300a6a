#include "harness/power/summation_order.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/digest.h"

namespace h3 {
namespace {

constexpr float kHuge = 0x1p60f;      // and what is added to it is below its last place
constexpr std::int64_t kTerms = 248;  // no whole number of 16s or 128s; counts are exact in BF16
constexpr std::int64_t kKeys = 256;   // a power of two, so that softmax weights are exact
constexpr std::int64_t kHeads = 6, kHeadDim = 128;

struct Pair {
  std::int64_t i, j;
};

std::vector<Pair> pairs_of(std::int64_t n) {
  std::vector<Pair> pairs;
  for (std::int64_t j = 1; j < n; ++j) pairs.push_back({0, j});
  for (std::int64_t j = 1; j + 1 < n; ++j) pairs.push_back({j, j + 1});
  for (std::int64_t j = 1; j + 2 < n; ++j) pairs.push_back({j, n - 1});
  return pairs;
}

// The terms of every pair's probe: huge at i, its negative at j, `unit` elsewhere. Probes lie in rows, or in
// columns; the rest up to `count` probes is units.
Tensor probes(DType dtype, std::int64_t n, std::int64_t count, bool in_rows, float unit = 1) {
  const std::vector<Pair> pairs = pairs_of(n);
  require(std::int64_t(pairs.size()) <= count, "summation order: {} probes, room for {}", pairs.size(),
          count);
  Tensor terms(DType::fp32, in_rows ? Shape{count, n} : Shape{n, count});
  std::ranges::fill(terms.values<float>(), unit);
  for (std::int64_t p = 0; p < std::int64_t(pairs.size()); ++p) {
    const auto at = [&](std::int64_t k) { return in_rows ? p * n + k : k * count + p; };
    terms.data<float>()[at(pairs[std::size_t(p)].i)] = kHuge * unit;
    terms.data<float>()[at(pairs[std::size_t(p)].j)] = -kHuge * unit;
  }
  return terms.to(dtype);
}

Tensor filled(DType dtype, Shape shape, float value) {
  Tensor tensor(DType::fp32, std::move(shape));
  std::ranges::fill(tensor.values<float>(), value);
  return tensor.to(dtype);
}

Tensor zero_indices(std::int64_t rows) {
  Tensor indices(DType::i64, {rows});
  std::memset(indices.bytes(), 0, indices.size_bytes());
  return indices;
}

constexpr std::int64_t kProbes = 744;  // at least 3 * 248 - 6, a multiple of 8

// Survivors of every probe, from element first + p * stride of a result that is `unit` a term.
OrderCertificate certificate(const Reduction& reduction, const Tensor& result, std::int64_t stride,
                             float unit) {
  OrderCertificate found{reduction, {}, {}, {}};
  const std::int64_t n = reduction.terms;
  const std::vector<Pair> pairs = pairs_of(n);
  for (std::int64_t p = 0; p < std::int64_t(pairs.size()); ++p)
    found.subtree.push_back(n - std::llround(double(result.at(p * stride)) / double(unit)));
  found.digest = xxh3_128_hex(std::as_bytes(std::span(found.subtree))).substr(0, 8);
  for (const KnownOrder& order : known_orders()) {
    const auto is = [&](std::size_t p) {
      return found.subtree[p] == order.subtree(pairs[p].i, pairs[p].j, n);
    };
    bool all = true;
    for (std::size_t p = 0; p < pairs.size(); ++p) all = all && is(p);
    if (all) found.found = order.name;
  }
  if (found.found.empty()) {
    found.found = "unknown: from the first term";
    for (const std::int64_t j : {1, 2, 15, 16, 63, 64, 123, 124, 247})
      found.found += fmt::format(" {}", found.subtree[std::size_t(j - 1)]);
  }
  return found;
}

class Prober {
 public:
  explicit Prober(const Execution& execution) : execution_(execution) {}

  Tensor run(const Node& node, std::vector<Tensor> inputs, std::vector<Tensor> parameters) const {
    return execution_.fetch(execution_.run(node, placed(inputs), placed(parameters)));
  }
  // Gradients of the inputs, then of the parameters.
  std::vector<Tensor> backward(const Node& node, std::vector<Tensor> inputs, std::vector<Tensor> parameters,
                               const Tensor& gradient) const {
    const auto in = placed(inputs), weights = placed(parameters);
    const Tensor output = execution_.run(node, in, weights);
    NodeGradients g = execution_.backward(node, in, weights, output, execution_.place(gradient));
    std::vector<Tensor> all;
    for (const auto* list : {&g.inputs, &g.parameters})
      for (const Tensor& tensor : *list) all.push_back(tensor.empty() ? tensor : execution_.fetch(tensor));
    return all;
  }

 private:
  std::vector<Tensor> placed(const std::vector<Tensor>& tensors) const {
    std::vector<Tensor> there;
    for (const auto& tensor : tensors)
      there.push_back(tensor.dtype() == DType::i64 ? tensor : execution_.place(tensor));
    return there;
  }
  const Execution& execution_;
};

constexpr const char* kSteps = "steps of 16, ascending";
constexpr const char* kOneByOne = "one by one, ascending";
constexpr const char* kRuns = "one by one in runs of 128, then the runs";
constexpr const char* kGroups = "trees of 8 in runs of 128, then the runs";
constexpr const char* kPartials = "16 partial sums, then these ascending";

}  // namespace

std::span<const KnownOrder> known_orders() {
  static const KnownOrder orders[] = {
      {kSteps, [](std::int64_t, std::int64_t j, std::int64_t n) { return std::min(n, (j / 16 + 1) * 16); }},
      {kOneByOne, [](std::int64_t, std::int64_t j, std::int64_t) { return j + 1; }},
      {kRuns,
       [](std::int64_t i, std::int64_t j, std::int64_t n) {
         return i / 128 == j / 128 ? j % 128 + 1 : std::min(n, (j / 128 + 1) * 128);
       }},
      {kGroups,
       [](std::int64_t i, std::int64_t j, std::int64_t n) {
         if (i / 128 != j / 128) return n;  // the first two runs are a pair
         const std::int64_t run = j / 128 * 128;
         if (i / 8 != j / 8) return std::min(n, (j / 8 + 1) * 8) - run;
         const std::int64_t size = i / 2 == j / 2 ? 2 : i / 4 == j / 4 ? 4 : 8, first = j / size * size;
         return std::min(n, first + size) - first;
       }},
      {kPartials,
       [](std::int64_t i, std::int64_t j, std::int64_t n) {
         if (i % 16 == j % 16) return j / 16 + 1;
         const std::int64_t partials = std::max(i % 16, j % 16) + 1;  // all their terms
         return n / 16 * partials + std::min(n % 16, partials);
       }},
      {"two halves, then their sum",
       [](std::int64_t i, std::int64_t j, std::int64_t n) {
         const std::int64_t half = n / 2, first = j < half ? 0 : half;
         return (i < half) != (j < half) ? n
                                         : std::min(j < half ? half : n - half, ((j - first) / 16 + 1) * 16);
       }},
  };
  return orders;
}

Config order_config() {
  Config config;
  config.num_attention_heads = kHeads;
  config.hidden_size = 48;
  config.freq_dim = 8;
  config.time_embed_hidden_dim = kTerms;
  config.time_embed_dim = 8;
  return config;
}

std::vector<OrderCertificate> order_certificates(const Execution& execution) {
  const Prober prober(execution);
  constexpr DType bf16 = DType::bf16, fp32 = DType::fp32;
  constexpr std::int64_t n = kTerms, few = 8;
  std::vector<OrderCertificate> found;

  const Node product{"q_proj", "h3_qkv_gemm", {"norm1"}, {"w"}, few};
  found.push_back(certificate(
      {"q_proj", "y over K", kSteps, n},
      prober.run(product, {probes(bf16, n, kProbes, true)}, {filled(bf16, {few, n}, 1)}), few, 1));
  const Node deep{"q_proj", "h3_qkv_gemm", {"norm1"}, {"w"}, n};
  found.push_back(certificate({"q_proj", "dX over N", kSteps, n},
                              prober.backward(deep, {filled(bf16, {kProbes, few}, 1)},
                                              {filled(bf16, {n, few}, 1)}, probes(bf16, n, kProbes, true))[0],
                              few, 1));
  const Node tall{"q_proj", "h3_qkv_gemm", {"norm1"}, {"w"}, kProbes};
  found.push_back(
      certificate({"q_proj", "dW over S", kSteps, n},
                  prober.backward(tall, {filled(bf16, {n, few}, 1)}, {filled(bf16, {kProbes, few}, 1)},
                                  probes(bf16, n, kProbes, false))[1],
                  few, 1));

  // Queries of zeros weigh all keys alike; every channel of every head is a probe.
  const std::int64_t width = kHeads * kHeadDim;
  const Node attention{"attention", "h3_full_attention", {"rope_q", "rope_k", "v_proj"}, {}, width, false};
  const auto heads = [&](const Tensor& x) { return x.reshaped({x.shape()[0], kHeads, kHeadDim}); };
  const Tensor q = heads(filled(bf16, {kKeys, width}, 0)), k = q;
  found.push_back(
      certificate({"attention", "o over keys", kSteps, kKeys},
                  prober.run(attention, {q.row_range(0, 1), k, heads(probes(bf16, kKeys, width, false))}, {}),
                  1, 1.0f / kKeys));
  found.push_back(certificate({"attention", "dV over queries", kSteps, kKeys},
                              prober.backward(attention, {q, k, heads(filled(bf16, {kKeys, width}, 0))}, {},
                                              probes(bf16, kKeys, width, false))[2],
                              1, 1.0f / kKeys));

  const Node norm{"norm1", "h3_rmsnorm", {"hidden_states"}, {"w"}, kProbes};
  found.push_back(
      certificate({"norm1", "dweight over S", kGroups, n},
                  prober.backward(norm, {filled(bf16, {n, kProbes}, 1)}, {filled(bf16, {kProbes}, 1)},
                                  probes(bf16, n, kProbes, false))[1],
                  1, 1));
  const Node gated{"residual_mlp",
                   "adaln_gate_residual",
                   {"residual_attn", "ffn_down", "adaln_projection", "adaln_indices"},
                   {},
                   kProbes};
  const std::int64_t gate_at = std::int64_t(Modulation::gate_mlp) * kProbes;
  Tensor gate_gradient = prober.backward(gated,
                                         {filled(bf16, {n, kProbes}, 1), filled(bf16, {n, kProbes}, 1),
                                          filled(bf16, {1, 6 * kProbes}, 1), zero_indices(n)},
                                         {}, probes(bf16, n, kProbes, false))[2];
  Tensor gates(bf16, {kProbes});
  std::copy_n(gate_gradient.data<Bf16>() + gate_at, kProbes, gates.data<Bf16>());
  found.push_back(certificate({"residual_mlp", "dgate over S", kGroups, n}, gates, 1, 1));

  const std::int64_t outputs = kTags * 6 * order_config().hidden_size;
  const Node adaln{"adaln_projection", "adaln_projection_3mod", {"temb"}, {"w", "b"}, outputs / kTags};
  found.push_back(
      certificate({"adaln_projection", "dbias over U", kGroups, n},
                  prober.backward(adaln, {filled(fp32, {n, few}, 1)},
                                  {filled(bf16, {outputs, few}, 1), filled(bf16, {outputs}, 1)},
                                  probes(bf16, n, outputs, false).reshaped({kTags * n, outputs / kTags}))[2],
                  1, 1));

  const Node island{"video_in_proj", "video_input_projection_fp32", {"video_rows"}, {"w", "b"}, few};
  found.push_back(certificate({"video_in_proj", "y over K", kOneByOne, n},
                              prober.run(island, {probes(fp32, n, kProbes, true)},
                                         {filled(fp32, {few, n}, 1), filled(fp32, {few}, 0)}),
                              few, 1));
  const Node island_tall{"video_in_proj", "video_input_projection_fp32", {"video_rows"}, {"w", "b"}, kProbes};
  const auto island_gradients = prober.backward(island_tall, {filled(fp32, {n, few}, 1)},
                                                {filled(fp32, {kProbes, few}, 1), filled(fp32, {kProbes}, 0)},
                                                probes(fp32, n, kProbes, false));
  found.push_back(certificate({"video_in_proj", "dW over S", kRuns, n}, island_gradients[1], few, 1));
  found.push_back(certificate({"video_in_proj", "dbias over S", kGroups, n}, island_gradients[2], 1, 1));

  // silu(64) is 64 in FP32: the second linear sees a hidden row of 64s.
  constexpr float kHidden = 64;
  const Node mlp{
      "timestep_mlp", "timestep_mlp_fp32", {"timestep_sinusoid"}, {"w1", "b1", "w2", "b2"}, kProbes};
  found.push_back(certificate({"timestep_mlp", "temb over K", kPartials, n},
                              prober.run(mlp, {filled(fp32, {1, few}, 0)},
                                         {filled(fp32, {n, few}, 0), filled(fp32, {n}, kHidden),
                                          probes(fp32, n, kProbes, true), filled(fp32, {kProbes}, 0)}),
                              1, kHidden));
  return found;
}

}  // namespace h3
