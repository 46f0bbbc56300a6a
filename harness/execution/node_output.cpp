#include "harness/execution/node_output.h"

#include <set>

namespace h3 {
namespace {

bool is_fp32(const Node& node) {
  static const std::set<std::string> rows = {
      "timestep_sinusoid_h3",        "rotary_tables",    "timestep_mlp_fp32", "video_input_projection_fp32",
      "audio_input_projection_fp32", "fp32_output_head", "widening"};
  return rows.contains(node.row);
}

std::int64_t rows_of(const Node& node, std::span<const Tensor> in) {
  const std::int64_t rows = in[0].shape()[0];
  if (node.name == "adaln_projection") return kTags * rows;
  if (node.row == "packing") return rows + in[1].shape()[0] + in[2].shape()[0];
  return node.row == "row_selection" ? in[1].elements() : rows;
}

}  // namespace

Tensor output_of(const Node& node, const Config& config, std::span<const Tensor> in) {
  const std::int64_t rows = rows_of(node, in);
  if (node.row == "h3_qk_rmsnorm_d128" || node.row == "h3_mm_rope_3axis_partial")
    return Tensor(DType::bf16, {rows, config.num_attention_heads, config.attention_head_dim});
  const bool as_its_input = node.row == "residual" || node.row == "row_selection";
  return Tensor(as_its_input ? in[0].dtype() : is_fp32(node) ? DType::fp32 : DType::bf16, {rows, node.cols});
}

}  // namespace h3
