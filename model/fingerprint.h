// The architecture of MiniMax-H3 as data: every parameter tensor with its name, shape and storage type, and
// the nodes of the two kinds of block. All of it follows from Config, so a reduced model has its own list.
// Source: the provider's parameter table (RFC row h3_arch_fingerprint); linear weights are stored (out, in).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.h"
#include "model/dtype.h"
#include "model/tensor.h"

namespace h3 {

enum class Group : std::uint8_t { boundary, refiner, block };  // which part of the model owns a tensor

struct TensorSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::bf16;  // as released: the FP32 islands are fp32, everything else bf16
  Group group = Group::boundary;
  std::int64_t index = 0;  // of the block or refiner block; 0 for the boundary

  std::int64_t elements() const;
  std::int64_t size_bytes() const { return elements() * std::int64_t(size_of(dtype)); }
  bool operator==(const TensorSpec&) const = default;
};

// Names as they stand in the checkpoint, in the order of the forward pass.
std::vector<TensorSpec> tensor_specs(const Config& config);
std::vector<TensorSpec> block_specs(const Config& config, std::int64_t block);  // the 12 tensors of a block
std::vector<TensorSpec> refiner_specs(const Config& config,
                                      std::int64_t refiner);   // the 10 of a refiner block
std::vector<TensorSpec> boundary_specs(const Config& config);  // the 18 others

inline constexpr std::array<std::string_view, 17> kBlockNodes = {
    "adaln_projection", "norm1",    "q_proj",      "k_proj", "v_proj",        "q_norm", "k_norm",
    "rope_q",           "rope_k",   "attention",   "o_proj", "residual_attn", "norm2",  "ffn_gate_up",
    "swiglu",           "ffn_down", "residual_mlp"};
inline constexpr std::array<std::string_view, 14> kRefinerNodes = {
    "norm1",  "q_proj",        "k_proj", "v_proj",      "q_norm", "k_norm",   "attention",
    "o_proj", "residual_attn", "norm2",  "ffn_gate_up", "swiglu", "ffn_down", "residual_mlp"};

struct Fingerprint {
  std::int64_t tensors = 0, parameters = 0, size_bytes = 0;
  std::int64_t fp32_tensors = 0, fp32_parameters = 0;
  std::int64_t nodes = 0;  // of all blocks and refiner blocks
  std::string sha256;      // of canonical_text
};

// One line per fact (configuration, nodes, tensors), "\n" after each: what the fingerprint's digest is taken
// over.
std::string canonical_text(const Config& config);
Fingerprint fingerprint(const Config& config);

}  // namespace h3
