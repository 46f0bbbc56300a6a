#include "golden/final_adaln_out.h"
#include "golden/fp32_projection.h"
#include "golden/packing.h"
#include "golden/rms_norm.h"
#include "golden/rotary_tables.h"
#include "golden/timestep_mlp.h"
#include "golden/timestep_sinusoid.h"
#include "harness/execution/boundary_nodes.h"

namespace h3 {

Tensor run_golden_boundary(const Node& node, const Config& config, std::span<const Tensor> in,
                           std::span<const Tensor> parameters, golden::Summation summation) {
  const std::string& n = node.name;
  if (n == "timestep_sinusoid") return golden::timestep_sinusoid(in[0], node.cols);
  if (n == "rotary_cos" || n == "rotary_sin") {
    const auto tables =
        golden::rotary_tables(in[0], golden::rotary_frequencies(config.rope_freq_dim, config.rope_theta));
    return n == "rotary_cos" ? tables.cos : tables.sin;
  }
  if (n == "timestep_mlp")
    return golden::timestep_mlp(in[0], parameters[0], parameters[1], parameters[2], parameters[3], summation);
  if (is_fp32_projection(node))
    return golden::fp32_projection(in[0], parameters[0], parameters[1], summation);
  if (n == "context_embedder") return golden::linear(in[0], parameters[0], &parameters[1], summation);
  if (n == "token_refiner.final_norm") return golden::rms_norm(in[0], parameters[0], config.final_norm_eps);
  if (n == "packing") return golden::pack_rows({{in[0], in[3]}, {in[1], in[4]}, {in[2], in[5]}});
  if (n == "norm_out_table") return golden::final_adaln_table(in[0], parameters[0], parameters[1], summation);
  if (n == "norm_out")
    return golden::final_adaln_out(in[0], parameters[0], config.final_norm_eps, in[1], in[2]);
  if (n == "norm_out_fp32") return in[0];
  if (node.row == "row_selection") return golden::select_rows(in[0], in[1]);
  fail("golden: boundary node '{}' has no implementation", n);
}

NodeGradients golden_boundary_backward(const Node& node, const Config& config, std::span<const Tensor> in,
                                       std::span<const Tensor> parameters, const Tensor& dy,
                                       golden::Summation summation) {
  const std::string& n = node.name;
  const auto of_linear = [](const golden::LinearGradients& g) {
    return NodeGradients{{g.x}, {g.weight, g.bias}};
  };
  if (n == "timestep_mlp") {
    const auto g =
        golden::timestep_mlp_backward(in[0], parameters[0], parameters[1], parameters[2], dy, summation);
    return {{Tensor()}, {g.weight_1, g.bias_1, g.weight_2, g.bias_2}};
  }
  if (is_fp32_projection(node))
    return of_linear(golden::fp32_projection_backward(in[0], parameters[0], dy, summation));
  if (n == "context_embedder") return of_linear(golden::linear_backward(in[0], parameters[0], dy, summation));
  if (n == "token_refiner.final_norm") {
    const auto g = golden::rms_norm_backward(in[0], parameters[0], config.final_norm_eps, dy);
    return {{g.x}, {g.weight}};
  }
  if (n == "packing")
    return {{golden::select_rows(dy, in[3]), golden::select_rows(dy, in[4]), golden::select_rows(dy, in[5]),
             Tensor(), Tensor(), Tensor()},
            {}};
  if (n == "norm_out_table")
    return of_linear(golden::final_adaln_table_backward(in[0], parameters[0], dy, summation));
  if (n == "norm_out") {
    const auto g =
        golden::final_adaln_out_backward(in[0], parameters[0], config.final_norm_eps, in[1], in[2], dy);
    return {{g.x, g.table, Tensor()}, {g.norm_weight}};
  }
  if (n == "norm_out_fp32") return {{dy}, {}};
  if (node.row == "row_selection")
    return {{golden::select_rows_backward(dy, in[1], in[0].rows()), Tensor()}, {}};
  fail("golden: boundary node '{}' has no backward", n);
}

}  // namespace h3
