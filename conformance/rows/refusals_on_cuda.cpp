// What the strict kernels refuse, on the host, before anything is launched: the output
// keeps its poison. The projections and attention have their own files.
#ifdef H3_HAVE_CUDA
#include <cmath>

#include "conformance/rows/on_cuda.h"
#include "kernels/adaln_projection.h"
#include "kernels/adaln_row_gather.h"
#include "kernels/fp32_projection.h"
#include "kernels/gate_residual.h"
#include "kernels/mm_rope.h"
#include "kernels/ode_step.h"
#include "kernels/packing.h"
#include "kernels/qk_norm.h"
#include "kernels/qk_norm_rope.h"
#include "kernels/rms_norm.h"
#include "kernels/rotary_tables.h"
#include "kernels/swiglu.h"
#include "kernels/timestep_mlp.h"
#include "kernels/timestep_sinusoid.h"
#include "kernels/video_patch_pack_unpack.h"

namespace h3 {
namespace {

namespace strict = kernels::cuda;

Tensor bf16(const Shape& shape) { return cuda::upload(filled(DType::bf16, shape, 1)); }
Tensor fp32(const Shape& shape) { return cuda::upload(filled(DType::fp32, shape, 1)); }
Tensor scalar(double value) { return filled(DType::fp32, {1}, value); }

struct RefusedOnCuda : testing::TestWithParam<BadInput> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};
TEST_P(RefusedOnCuda, before_any_launch) { EXPECT_TRUE(is_refused_on_cuda(GetParam())); }

const BadInput kBad[] = {
    {"rms_norm_x_on_the_cpu", "rms_norm: x lies on the CPU, expected the GPU",
     [](Tensor& y) {
       strict::rms_norm(filled(DType::bf16, {2, 8}, 1), bf16({8}), 1e-5f, y, nullptr);
     }},
    {"rms_norm_weight_of_another_dtype", "rms_norm: weight is fp32, expected bf16",
     [](Tensor& y) {
       strict::rms_norm(bf16({2, 8}), fp32({8}), 1e-5f, y, nullptr);
     }},
    {"rms_norm_negative_eps", "rms_norm: eps is -1",
     [](Tensor& y) {
       strict::rms_norm(bf16({2, 8}), bf16({8}), -1, y, nullptr);
     }},
    {"qk_norm_a_part_of_a_head", "whole heads of 6",
     [](Tensor& y) {
       strict::qk_norm(bf16({2, 8}), bf16({6}), 1e-5f, y, nullptr);
     }},
    {"modulation_index_past_the_table", "index[1] is 9, expected 0..8",
     [](Tensor& y) {
       const Tensor table = bf16({9, 48});
       strict::modulated_rms_norm(bf16({2, 8}), bf16({8}), 1e-5f, {table, 0}, {table, 1},
                                  {listed_index({0, 9}), 9}, y, nullptr);
     }},
    {"modulation_index_checked_against_a_larger_table", "index was checked against 9 table rows, shift has 3",
     [](Tensor& y) {
       const Tensor table = bf16({3, 48});
       strict::modulated_rms_norm(bf16({2, 8}), bf16({8}), 1e-5f, {table, 0}, {table, 1},
                                  {listed_index({0, 8}), 9}, y, nullptr);
     }},
    {"modulation_part_past_the_table", "scale is part 6 of a table 9x48, expected a part of 8 columns",
     [](Tensor& y) {
       const Tensor table = bf16({9, 48});
       strict::modulated_rms_norm(bf16({2, 8}), bf16({8}), 1e-5f, {table, 0}, {table, 6},
                                  {listed_index({0, 0}), 9}, y, nullptr);
     }},
    {"gather_of_another_dtype", "adaln_row_gather: table is fp32, expected bf16",
     [](Tensor& y) {
       strict::adaln_row_gather({fp32({6, 48}), 0}, {listed_index({0, 1}), 6}, y, nullptr);
     }},
    {"gate_branch_of_another_shape", "gate_residual: branch is 2x4, expected 2x8",
     [](Tensor& y) {
       strict::gate_residual(bf16({2, 8}), bf16({2, 4}), {bf16({3, 48}), 2}, {listed_index({0, 0}), 3}, y,
                             nullptr);
     }},
    {"residual_in_fp32", "residual: y is bf16, expected fp32",
     [](Tensor& y) {
       strict::residual(fp32({2, 8}), fp32({2, 8}), y, nullptr);
     }},
    {"swiglu_odd_width", "swiglu: x is 2x15, expected 2 extents and an even width",
     [](Tensor& y) {
       strict::swiglu(bf16({2, 15}), y, nullptr);
     }},
    {"rope_tables_in_bf16",
     "mm_rope: cos is bf16, expected fp32",
     [](Tensor& y) {
       strict::mm_rope(bf16({2, 1, 8}), bf16({2, 6}), fp32({2, 6}), y, nullptr);
     },
     DType::bf16,
     {2, 1, 8}},
    {"qk_norm_rope_heads_of_64",
     "qk_norm_rope: q is 2x1x64, expected (rows, heads, 128)",
     [](Tensor& y) {
       const Tensor x = bf16({2, 1, 64}), table = fp32({2, 48});
       strict::qk_norm_rope({x, bf16({64}), y}, {x, bf16({64}), x}, 1e-5f, table, table, nullptr);
     },
     DType::bf16,
     {2, 1, 64}},
    {"qk_norm_rope_angles_in_tens",
     "qk_norm_rope: 20 rotated channels in heads of 128, expected a multiple of 16",
     [](Tensor& y) {
       const Tensor x = bf16({2, 1, 128}), table = fp32({2, 20});
       strict::qk_norm_rope({x, bf16({128}), y}, {x, bf16({128}), x}, 1e-5f, table, table, nullptr);
     },
     DType::bf16,
     {2, 1, 128}},
    {"qk_norm_rope_k_of_another_shape",
     "qk_norm_rope: k is 3x1x128, expected 2x1x128",
     [](Tensor& y) {
       const Tensor x = bf16({2, 1, 128}), k = bf16({3, 1, 128}), table = fp32({2, 96});
       strict::qk_norm_rope({x, bf16({128}), y}, {k, bf16({128}), k}, 1e-5f, table, table, nullptr);
     },
     DType::bf16,
     {2, 1, 128}},
    {"adaln_temb_in_bf16",
     "modulation_input: temb is bf16, expected fp32",
     [](Tensor& y) {
       Tensor z = bf16({2, 16});
       strict::adaln_projection(bf16({2, 16}), bf16({18, 16}), bf16({18}), z, y, nullptr);
     },
     DType::bf16,
     {6, 6}},
    {"timestep_scaled",
     "t[0] is 500, expected 0..1",
     [](Tensor& y) { strict::timestep_sinusoid(scalar(500), y, nullptr); },
     DType::fp32,
     {1, 8}},
    {"timestep_mlp_bf16_weights", "timestep_mlp: w1 is bf16, expected fp32",
     [](Tensor& y) {
       Tensor inner = fp32({2, 8});
       strict::timestep_mlp(fp32({2, 8}), bf16({8, 8}), fp32({8}), fp32({8, 8}), fp32({8}), inner, y,
                            nullptr);
     },
     DType::fp32},
    {"rotary_infinite_position",
     "positions[1][2] is inf",
     [](Tensor& y) {
       Tensor sin = fp32({2, 6});
       strict::rotary_tables(listed(DType::fp64, {2, 3}, {0, 1, 2, 3, 4, INFINITY}), 10000, y, sin, nullptr);
     },
     DType::fp32,
     {2, 6}},
    {"fp32_projection_weights_cast_to_bf16", "fp32_projection: weight is bf16, expected fp32",
     [](Tensor& y) {
       strict::fp32_projection(fp32({2, 4}), bf16({8, 4}), fp32({8}), y, nullptr);
     },
     DType::fp32},
    {"packing_a_row_given_twice", "packing: packed row 1 is given twice",
     [](Tensor& y) {
       strict::pack_rows({{bf16({2, 8}), listed_index({1, 1})}}, y, nullptr);
     }},
    {"packing_rows_on_the_cpu", "packing: rows lies on the CPU, expected the GPU",
     [](Tensor& y) {
       strict::pack_rows({{filled(DType::bf16, {2, 8}, 1), listed_index({0, 1})}}, y, nullptr);
     }},
    {"video_patch_odd_height", "latents are 1x2x1x3x2, expected multiples of the patch 1x2x2",
     [](Tensor& y) {
       strict::video_patch_pack(fp32({1, 2, 1, 3, 2}), {}, y, nullptr);
     },
     DType::fp32},
    {"ode_step_rising_sigma", "ode_step: sigma_next of row 0 is 0.75, expected 0..0.5",
     [](Tensor& y) {
       strict::ode_step(fp32({2, 8}), fp32({2, 8}), scalar(0.5), scalar(0.5), scalar(0.75), y, nullptr);
     },
     DType::fp32},
    {"ode_step_velocity_of_another_dtype", "ode_step: velocity is bf16, expected fp32",
     [](Tensor& y) {
       strict::ode_step(fp32({2, 8}), bf16({2, 8}), scalar(0.5), scalar(0.5), scalar(0.25), y, nullptr);
     },
     DType::fp32},
    {"workspace_too_small", "rms_norm_backward: workspace has 9 elements, expected at least 10",
     [](Tensor& y) {
       Tensor dweight = bf16({8}), memory = workspace(9);
       strict::rms_norm_backward(bf16({2, 8}), bf16({8}), 1e-5f, bf16({2, 8}), y, dweight, memory, nullptr);
     }},
    {"qk_norm_gradient_of_another_shape", "qk_norm_backward: x is 2x8, dy is 2x4",
     [](Tensor& y) {
       Tensor dweight = bf16({8}), memory = workspace(64);
       strict::qk_norm_backward(bf16({2, 8}), bf16({8}), 1e-5f, bf16({2, 4}), y, dweight, memory, nullptr);
     }},
    {"gate_gradient_of_another_table", "gate_residual_backward: dgate has 4 table rows, expected 3",
     [](Tensor& y) {
       Tensor memory = workspace(64);
       strict::gate_residual_backward(bf16({2, 8}), {bf16({3, 48}), 2}, {listed_index({0, 0}), 3},
                                      bf16({2, 8}), y, {bf16({4, 8}), 0}, memory, nullptr);
     }},
    {"gather_gradient_of_another_dtype", "adaln_row_gather_backward: dpart is bf16, expected fp32",
     [](Tensor& y) {
       Tensor memory = workspace(64);
       strict::adaln_row_gather_backward(fp32({2, 8}), {listed_index({0, 1}), 2}, {y}, memory, nullptr);
     }},
    {"swiglu_gradient_of_the_full_width", "swiglu_backward: dh is 2x8, expected 2x4",
     [](Tensor& y) {
       strict::swiglu_backward(bf16({2, 8}), bf16({2, 8}), y, nullptr);
     }},
    {"fp32_gradient_in_bf16", "fp32_input_gradient: dy is bf16, expected fp32",
     [](Tensor& y) {
       strict::fp32_input_gradient(bf16({2, 4}), fp32({4, 8}), y, nullptr);
     }},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, RefusedOnCuda, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
#endif
