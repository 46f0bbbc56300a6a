#include "model/fingerprint.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "model/config_json.h"
#include "model/digest.h"

namespace h3 {
namespace {

// The ten tensors that a transformer block and a refiner block have in common.
void add_common(const Config& c, const std::string& prefix, Group group, std::int64_t index,
                std::vector<TensorSpec>& specs) {
  const auto add = [&](const char* name, Shape shape) {
    specs.push_back({prefix + name, std::move(shape), DType::bf16, group, index});
  };
  const std::int64_t hidden = c.hidden_size, inner = c.inner_dim();
  add("norm1.weight", {hidden});
  add("attn.to_q.weight", {inner, hidden});
  add("attn.to_k.weight", {inner, hidden});
  add("attn.to_v.weight", {inner, hidden});
  add("attn.norm_q.weight", {c.attention_head_dim});
  add("attn.norm_k.weight", {c.attention_head_dim});
  add("attn.to_out.0.weight", {hidden, inner});
  add("norm2.weight", {hidden});
  add("ff.net.0.proj.weight", {2 * c.ffn_dim, hidden});  // value rows first, then gate rows
  add("ff.net.2.weight", {hidden, c.ffn_dim});
}

void append(std::vector<TensorSpec>& to, std::vector<TensorSpec> from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

void add_linear(std::vector<TensorSpec>& specs, const std::string& name, DType dtype, std::int64_t out,
                std::int64_t in) {
  specs.push_back({name + ".weight", {out, in}, dtype});
  specs.push_back({name + ".bias", {out}, dtype});
}

std::vector<TensorSpec> entry_specs(const Config& c) {
  std::vector<TensorSpec> specs;
  add_linear(specs, "proj_in", DType::fp32, c.hidden_size, c.video_row_dim());
  add_linear(specs, "audio_proj_in", DType::fp32, c.hidden_size, c.audio_in_channels);
  add_linear(specs, "context_embedder", DType::bf16, c.hidden_size, c.text_dim);
  add_linear(specs, "time_embedder.linear_1", DType::fp32, c.time_embed_hidden_dim, c.freq_dim);
  add_linear(specs, "time_embedder.linear_2", DType::fp32, c.time_embed_dim, c.time_embed_hidden_dim);
  return specs;
}

TensorSpec refiner_norm_spec(const Config& c) { return {"token_refiner.final_norm.weight", {c.hidden_size}}; }

std::vector<TensorSpec> exit_specs(const Config& c) {
  std::vector<TensorSpec> specs;
  specs.push_back({"norm_out.norm.weight", {c.hidden_size}});
  add_linear(specs, "norm_out.linear", DType::bf16, 2 * c.hidden_size,
             c.time_embed_dim);  // shift rows, then scale
  add_linear(specs, "proj_out", DType::fp32, c.video_row_dim(), c.hidden_size);
  add_linear(specs, "audio_proj_out", DType::fp32, c.audio_in_channels, c.hidden_size);
  return specs;
}

}  // namespace

std::int64_t TensorSpec::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<>());
}

std::vector<TensorSpec> block_specs(const Config& c, std::int64_t block) {
  require(block >= 0 && block < c.num_layers, "block {}: the model has {} blocks", block, c.num_layers);
  const std::string prefix = fmt::format("transformer_blocks.{}.", block);
  const std::int64_t outputs = kTags * c.modulation_dim();  // tag, then part, then channel
  std::vector<TensorSpec> specs;
  specs.push_back(
      {prefix + "adaln_proj.linear.weight", {outputs, c.time_embed_dim}, DType::bf16, Group::block, block});
  specs.push_back({prefix + "adaln_proj.linear.bias", {outputs}, DType::bf16, Group::block, block});
  add_common(c, prefix, Group::block, block, specs);
  return specs;
}

std::vector<TensorSpec> refiner_specs(const Config& c, std::int64_t refiner) {
  require(refiner >= 0 && refiner < c.num_refiner_layers, "refiner block {}: the model has {}", refiner,
          c.num_refiner_layers);
  std::vector<TensorSpec> specs;
  add_common(c, fmt::format("token_refiner.refiner_blocks.{}.", refiner), Group::refiner, refiner, specs);
  return specs;
}

std::vector<TensorSpec> boundary_specs(const Config& c) {
  std::vector<TensorSpec> specs = entry_specs(c);
  specs.push_back(refiner_norm_spec(c));
  append(specs, exit_specs(c));
  return specs;
}

std::vector<TensorSpec> tensor_specs(const Config& c) {
  std::vector<TensorSpec> specs = entry_specs(c);
  for (std::int64_t j = 0; j < c.num_refiner_layers; ++j) append(specs, refiner_specs(c, j));
  specs.push_back(refiner_norm_spec(c));
  for (std::int64_t i = 0; i < c.num_layers; ++i) append(specs, block_specs(c, i));
  append(specs, exit_specs(c));
  return specs;
}

std::string canonical_text(const Config& c) {
  std::string text = "h3-fingerprint 1\n";
  for_each_number(c,
                  [&](const char* name, auto value) { text += fmt::format("config {} {}\n", name, value); });
  text += fmt::format("config patch_size {}x{}x{}\n", c.patch_t, c.patch_h, c.patch_w);
  text += fmt::format("nodes {}x {}\n", c.num_refiner_layers, fmt::join(kRefinerNodes, ","));
  text += fmt::format("nodes {}x {}\n", c.num_layers, fmt::join(kBlockNodes, ","));
  for (const TensorSpec& spec : tensor_specs(c))
    text += fmt::format("tensor {} {} {}\n", spec.name, name_of(spec.dtype), to_string(spec.shape));
  return text;
}

Fingerprint fingerprint(const Config& c) {
  Fingerprint total;
  for (const TensorSpec& spec : tensor_specs(c)) {
    ++total.tensors;
    total.parameters += spec.elements();
    total.size_bytes += spec.size_bytes();
    if (spec.dtype != DType::fp32) continue;
    ++total.fp32_tensors;
    total.fp32_parameters += spec.elements();
  }
  total.nodes = c.num_layers * std::int64_t(kBlockNodes.size()) +
                c.num_refiner_layers * std::int64_t(kRefinerNodes.size());
  total.sha256 = sha256_hex(canonical_text(c));
  return total;
}

}  // namespace h3
