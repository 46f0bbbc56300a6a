// Every golden gradient against differences of the golden it belongs to, in FP64: row by row, then through a
// whole block. FP64 inputs give FP64 borders, so nothing is rounded to FP32 in between.
//
// For a loss L = sum dy y and D(h) = (L(x + h) - L(x - h)) / 2h of one element, (4 D(h) - D(2h)) / 3 is L' up
// to
//   truncation  h^4 / 30 max|L^(5)|: 4 h^4 A / r^5 by Cauchy, where L stays below A in a disc of radius r;
//   rounding    3/2 c u A / h, where FP64 evaluates L with an error of c units u = 2^-53 of A.
// h = 2^-10, r >= 3/4, c <= 64 give 2^-35.9 A + 2^-36.4 A. A, the sum of |dy| max|y|, is that of the case.
// The same bound of Cauchy on the third derivative, |D(2h) - D(h)| <= 3 h^2 A / r^3, is checked at every
// element.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <ostream>

#include "conformance/host/golden_inputs.h"
#include "golden/adaln_projection.h"
#include "golden/adaln_row_gather.h"
#include "golden/final_adaln_out.h"
#include "golden/fp32_projection.h"
#include "golden/full_attention.h"
#include "golden/gate_residual.h"
#include "golden/mm_rope.h"
#include "golden/packing.h"
#include "golden/qk_norm.h"
#include "golden/rms_norm.h"
#include "golden/rotary_tables.h"
#include "golden/swiglu.h"
#include "golden/timestep_mlp.h"
#include "golden/video_patch_pack_unpack.h"
#include "harness/compare/first_difference.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"
#include "model/parallel.h"

namespace h3 {
namespace {

using Tensors = std::vector<Tensor>;

constexpr double kStep = 0x1p-10, kRadius = 0.75, kLimit = 0x1p-35;

Tensor exact(std::string_view name, Shape shape, double scale = 1) {
  Tensor tensor(DType::fp64, std::move(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.data<double>()[i] = scale * uniform(name, i);
  return tensor;
}

Tensor zeros(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  std::fill_n(tensor.bytes(), tensor.size_bytes(), std::byte{0});
  return tensor;
}

// Changes one element for as long as it lives.
class Moved {
 public:
  Moved(Tensor& tensor, std::int64_t i, double by) : element_(tensor.data<double>()[i]), was_(element_) {
    element_ += by;
  }
  ~Moved() { element_ = was_; }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

 private:
  double& element_;
  double was_;
};

// NaN stays, whatever comes after it.
double larger(double a, double b) { return std::isnan(a) || a >= b ? a : b; }

// The extrapolated differences of sum dy y for every element of `x`, an operand of `y`; `scale` is A.
Tensor differences(Tensor& x, const Tensor& dy, double scale, const std::function<Tensor()>& y) {
  const auto moved = [&](std::int64_t i, double by) {
    const Moved element(x, i, by);
    return y();
  };
  const auto difference = [&](std::int64_t i, double step) {
    const Tensor above = moved(i, step), below = moved(i, -step);
    double sum = 0;
    for (std::int64_t j = 0; j < dy.elements(); ++j)
      sum += dy.data<double>()[j] * (above.data<double>()[j] - below.data<double>()[j]);
    return sum / (2 * step);
  };
  Tensor slopes(DType::fp64, x.shape());
  double curved = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double narrow = difference(i, kStep), wide = difference(i, 2 * kStep);
    slopes.data<double>()[i] = (4 * narrow - wide) / 3;
    curved = larger(curved, std::fabs(wide - narrow));
  }
  EXPECT_LE(curved, 3 * kStep * kStep * scale / (kRadius * kRadius * kRadius));
  return slopes;
}

// A of the derivation above.
double amplitude(const Tensor& dy, const Tensor& y) {
  double largest = 0, total = 0;
  for (const double value : y.values<double>()) largest = std::max(largest, std::fabs(value));
  for (const double value : dy.values<double>()) total += std::fabs(value);
  return largest * total;
}

// The largest distance in units of the amplitude; not a number where a shape or an element is none.
double distance(const Tensor& gradient, const Tensor& slopes, double scale) {
  if (gradient.empty() || gradient.shape() != slopes.shape()) return NAN;
  double worst = 0;
  for (std::int64_t i = 0; i < slopes.elements(); ++i)
    worst = larger(worst, std::fabs(gradient.data<double>()[i] - slopes.data<double>()[i]) / scale);
  return worst;
}

double worst_of(const Tensors& gradients, const Tensors& slopes, double scale) {
  if (gradients.size() != slopes.size()) return NAN;
  double worst = 0;
  for (std::size_t i = 0; i < slopes.size(); ++i)
    worst = larger(worst, distance(gradients[i], slopes[i], scale));
  return worst;
}

void record(double measured) {
  testing::Test::RecordProperty("metric", "distance to differences / sum of |dy| max|y|");
  testing::Test::RecordProperty("limit", fmt::format("{:.3e}", kLimit));
  testing::Test::RecordProperty("measured", fmt::format("{:.3e}", measured));
}

// ---- row by row

struct GradientRow {
  const char* name;
  Tensors operands;  // those that have a gradient, FP64
  std::function<Tensor(const Tensors&)> forward;
  std::function<Tensors(const Tensors&, const Tensor& dy)> backward;  // one for every operand
};
void PrintTo(const GradientRow& row, std::ostream* out) { *out << row.name; }

constexpr double kEps = 1e-3;

// Table rows 1 and 4 are read by nobody, row 3 twice or more.
Tensor chosen(std::int64_t rows) {
  Tensor index(DType::i64, {rows});
  constexpr std::int64_t kRows[] = {5, 3, 0, 3, 2};
  for (std::int64_t s = 0; s < rows; ++s) index.data<std::int64_t>()[s] = kRows[s % 5];
  return index;
}

struct Rotary {
  Tensor cos = random("cos", {5, 6}), sin = random("sin", {5, 6});
};

Tensors of(const golden::LinearGradients& gradients) {
  return {gradients.x, gradients.weight, gradients.bias};
}

std::vector<GradientRow> gradient_rows() {
  const Rotary rotary;
  const Shape latents = {2, 3, 1, 4, 2};
  return {
      {"linear",
       {exact("x", {6, 5}), exact("w", {5, 5}), exact("b", {5})},
       [](const Tensors& in) { return golden::linear(in[0], in[1], &in[2]); },
       [](const Tensors& in, const Tensor& dy) { return of(golden::linear_backward(in[0], in[1], dy)); }},
      {"rms_norm",
       {exact("x", {5, 12}), exact("w", {12})},
       [](const Tensors& in) { return golden::rms_norm(in[0], in[1], kEps); },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [dx, dweight] = golden::rms_norm_backward(in[0], in[1], kEps, dy);
         return {dx, dweight};
       }},
      {"modulated_rms_norm",
       {exact("x", {7, 10}), exact("w", {10}), exact("table", {6, 60})},
       [](const Tensors& in) {
         return golden::modulated_rms_norm(in[0], in[1], kEps, {in[2], 3}, {in[2], 4}, chosen(7));
       },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [dx, dweight, dshift, dscale] =
             golden::modulated_rms_norm_backward(in[0], in[1], kEps, {in[2], 4}, chosen(7), dy);
         return {dx, dweight, golden::table_gradient(in[2].shape(), {{dshift, 3}, {dscale, 4}})};
       }},
      {"qk_norm",
       {exact("x", {5, 3, 8}), exact("w", {8})},
       [](const Tensors& in) { return golden::qk_norm(in[0], in[1], kEps); },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [dx, dweight] = golden::qk_norm_backward(in[0], in[1], kEps, dy);
         return {dx, dweight};
       }},
      {"mm_rope",
       {exact("x", {5, 2, 8})},
       [=](const Tensors& in) { return golden::mm_rope(in[0], rotary.cos, rotary.sin); },
       [=](const Tensors&, const Tensor& dy) -> Tensors {
         return {golden::mm_rope_backward(dy, rotary.cos, rotary.sin)};
       }},
      {"full_attention",
       {exact("q", {7, 2, 12}, 2), exact("k", {11, 2, 12}, 2), exact("v", {11, 2, 12})},
       [](const Tensors& in) { return golden::full_attention(in[0], in[1], in[2]); },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [dq, dk, dv] = golden::full_attention_backward(in[0], in[1], in[2], dy);
         return {dq, dk, dv};
       }},
      {"full_attention_of_more_than_a_block_of_queries",
       {exact("q", {67, 1, 3}), exact("k", {5, 1, 3}), exact("v", {5, 1, 3})},
       [](const Tensors& in) { return golden::full_attention(in[0], in[1], in[2]); },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [dq, dk, dv] = golden::full_attention_backward(in[0], in[1], in[2], dy);
         return {dq, dk, dv};
       }},
      {"swiglu",
       {exact("x", {4, 18}, 4)},
       [](const Tensors& in) { return golden::swiglu(in[0]); },
       [](const Tensors& in, const Tensor& dy) -> Tensors { return {golden::swiglu_backward(in[0], dy)}; }},
      {"gate_residual",
       {exact("x", {7, 4}), exact("branch", {7, 4}), exact("table", {6, 24})},
       [](const Tensors& in) {
         return golden::gate_residual(in[0], in[1], {in[2], 2}, chosen(7));
       },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [dbranch, dgate] = golden::gate_residual_backward(in[1], {in[2], 2}, chosen(7), dy);
         return {dy, dbranch, golden::table_gradient(in[2].shape(), {{dgate, 2}})};
       }},
      {"residual",
       {exact("x", {3, 4}), exact("branch", {3, 4})},
       [](const Tensors& in) { return golden::residual(in[0], in[1]); },
       [](const Tensors&, const Tensor& dy) -> Tensors {
         return {dy, dy};
       }},
      {"adaln_projection",
       {exact("temb", {2, 5}, 4), exact("w", {36, 5}), exact("b", {36})},
       [](const Tensors& in) { return golden::adaln_projection(in[0], in[1], in[2]); },
       [](const Tensors& in, const Tensor& dy) {
         return of(golden::adaln_projection_backward(in[0], in[1], dy));
       }},
      {"final_adaln_table",
       {exact("temb", {2, 5}, 4), exact("w", {12, 5}), exact("b", {12})},
       [](const Tensors& in) { return golden::final_adaln_table(in[0], in[1], in[2]); },
       [](const Tensors& in, const Tensor& dy) {
         return of(golden::final_adaln_table_backward(in[0], in[1], dy));
       }},
      {"final_adaln_out",
       {exact("x", {7, 8}), exact("w", {8}), exact("table", {6, 16})},
       [](const Tensors& in) { return golden::final_adaln_out(in[0], in[1], kEps, in[2], chosen(7)); },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [dx, dweight, dtable] =
             golden::final_adaln_out_backward(in[0], in[1], kEps, in[2], chosen(7), dy);
         return {dx, dweight, dtable};
       }},
      {"timestep_mlp",
       {exact("e", {2, 6}), exact("w1", {5, 6}), exact("b1", {5}), exact("w2", {3, 5}), exact("b2", {3})},
       [](const Tensors& in) { return golden::timestep_mlp(in[0], in[1], in[2], in[3], in[4]); },
       [](const Tensors& in, const Tensor& dy) -> Tensors {
         const auto [de, dw1, db1, dw2, db2] = golden::timestep_mlp_backward(in[0], in[1], in[2], in[3], dy);
         return {de, dw1, db1, dw2, db2};
       }},
      {"fp32_projection",
       {exact("x", {6, 7}), exact("w", {4, 7}), exact("b", {4})},
       [](const Tensors& in) { return golden::fp32_projection(in[0], in[1], in[2]); },
       [](const Tensors& in, const Tensor& dy) {
         return of(golden::fp32_projection_backward(in[0], in[1], dy));
       }},
      {"adaln_row_gather",
       {exact("table", {6, 5})},
       [](const Tensors& in) { return golden::adaln_row_gather(in[0], chosen(7)); },
       [](const Tensors&, const Tensor& dy) -> Tensors {
         return {golden::adaln_row_gather_backward(dy, chosen(7), 6)};
       }},
      {"pack_rows",
       {exact("text", {2, 3}), exact("video", {1, 3}), exact("audio", {2, 3})},
       [](const Tensors& in) {
         return golden::pack_rows(
             {{in[0], indices({0, 3})}, {in[1], indices({4})}, {in[2], indices({2, 1})}});
       },
       [](const Tensors&, const Tensor& dy) -> Tensors {
         return {golden::select_rows(dy, indices({0, 3})), golden::select_rows(dy, indices({4})),
                 golden::select_rows(dy, indices({2, 1}))};
       }},
      {"select_rows",
       {exact("packed", {6, 3})},
       [](const Tensors& in) {
         return golden::select_rows(in[0], indices({4, 0, 4, 5}));
       },
       [](const Tensors&, const Tensor& dy) -> Tensors {
         return {golden::select_rows_backward(dy, indices({4, 0, 4, 5}), 6)};
       }},
      {"video_patch_pack",
       {exact("latents", latents)},
       [](const Tensors& in) { return golden::video_patch_pack(in[0]); },
       [=](const Tensors&, const Tensor& dy) -> Tensors {
         return {golden::video_patch_unpack(dy, latents)};
       }},
      {"video_patch_unpack",
       {exact("rows", {2, 2, 12})},
       [=](const Tensors& in) { return golden::video_patch_unpack(in[0], latents); },
       [](const Tensors&, const Tensor& dy) -> Tensors { return {golden::video_patch_pack(dy)}; }},
  };
}

Tensors clones_of(const Tensors& tensors) {
  Tensors clones;
  for (const Tensor& tensor : tensors) clones.push_back(tensor.clone());
  return clones;
}

struct Checked {
  explicit Checked(const GradientRow& row) : operands(clones_of(row.operands)) {
    const Tensor y = row.forward(operands);
    dy = exact("dy", y.shape());
    scale = amplitude(dy, y);
    for (Tensor& operand : operands)
      slopes.push_back(differences(operand, dy, scale, [&] { return row.forward(operands); }));
  }
  double worst(const Tensors& gradients) const { return worst_of(gradients, slopes, scale); }

  Tensors operands, slopes;
  Tensor dy;
  double scale = 0;
};

struct GoldenBackward : testing::TestWithParam<GradientRow> {
  const GradientRow& row = GetParam();
};

TEST_P(GoldenBackward, matches_differences_of_the_golden) {
  const Checked checked(row);
  const double worst = checked.worst(row.backward(checked.operands, checked.dy));
  record(worst);
  EXPECT_LE(worst, kLimit);
  EXPECT_GT(checked.scale, 0);
}

// Zeros, doubling and one wrong sign, in every gradient in turn.
TEST_P(GoldenBackward, notices_a_wrong_gradient) {
  const Checked checked(row);
  const Tensors gradients = row.backward(checked.operands, checked.dy);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto with = [&](const std::function<void(Tensor&)>& change) {
      Tensors changed = clones_of(gradients);
      change(changed[i]);
      return checked.worst(changed);
    };
    EXPECT_FALSE(with([](Tensor& g) { g = zeros(g.dtype(), g.shape()); }) <= 1000 * kLimit) << i;
    EXPECT_FALSE(with([](Tensor& g) {
                   for (double& value : g.values<double>()) value *= 2;
                 }) <= 1000 * kLimit)
        << i;
    EXPECT_FALSE(with([](Tensor& g) {
                   auto values = g.values<double>();
                   *std::ranges::max_element(values) *= -1;
                 }) <= 1000 * kLimit)
        << i;
    EXPECT_FALSE(with([](Tensor& g) { g.data<double>()[0] = NAN; }) <= 1000 * kLimit) << i;
  }
}

// What the node stores is the FP64 result rounded once, whatever exact type its operands come in.
TEST_P(GoldenBackward, rounds_once_at_an_fp32_border) {
  Tensors operands;
  for (const Tensor& operand : row.operands) operands.push_back(operand.to(DType::fp32));
  const Tensor y = row.forward(operands), wide = row.forward(row.operands);
  EXPECT_TRUE(identical(y, wide.to(DType::fp32)));
  const Tensor dy = exact("dy", y.shape());
  const Tensors gradients = row.backward(operands, dy.to(DType::fp32)),
                exact = row.backward(row.operands, dy);
  ASSERT_EQ(gradients.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_TRUE(identical(gradients[i], exact[i].to(DType::fp32))) << "gradient " << i;
}

TEST_P(GoldenBackward, does_not_depend_on_the_thread_count) {
  const Tensor dy = exact("dy", row.forward(row.operands).shape());
  set_thread_count(1);
  const Tensors alone = row.backward(row.operands, dy);
  set_thread_count(3);
  const Tensors together = row.backward(row.operands, dy);
  set_thread_count(0);
  for (std::size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(identical(alone[i], together[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(host, GoldenBackward, testing::ValuesIn(gradient_rows()),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- faults as people make them

struct FaultRow {
  const char* name;
  const char* row;  // of gradient_rows()
  std::function<void(const Checked&, Tensors& gradients)> plant;
};
void PrintTo(const FaultRow& row, std::ostream* out) { *out << row.name; }

struct GoldenBackwardFaults : testing::TestWithParam<FaultRow> {};

TEST_P(GoldenBackwardFaults, are_noticed) {
  for (const GradientRow& row : gradient_rows()) {
    if (row.name != std::string(GetParam().row)) continue;
    const Checked checked(row);
    Tensors gradients = clones_of(row.backward(checked.operands, checked.dy));
    ASSERT_LE(checked.worst(gradients), kLimit);
    GetParam().plant(checked, gradients);
    EXPECT_FALSE(checked.worst(gradients) <= 1000 * kLimit) << checked.worst(gradients);
    return;
  }
  FAIL() << "no row " << GetParam().row;
}

void scale_by(Tensor& gradient, double factor) {
  for (double& value : gradient.values<double>()) value *= factor;
}

// Columns [first, first + count) of a table's gradient set to zero.
void clear_columns(Tensor& table, std::int64_t first, std::int64_t count) {
  for (std::int64_t row = 0; row < table.rows(); ++row)
    std::fill_n(table.data<double>() + row * table.cols() + first, count, 0.0);
}

const FaultRow kFaults[] = {
    {"weight_gradient_transposed", "linear",
     [](const Checked&, Tensors& gradients) {
       const Tensor right = gradients[1].clone();
       for (std::int64_t i = 0; i < 25; ++i)
         gradients[1].data<double>()[i] = right.data<double>()[i % 5 * 5 + i / 5];
     }},
    {"last_row_missing_in_the_weight_gradient", "linear",
     [](const Checked& in, Tensors& gradients) {
       gradients[1] = golden::weight_gradient(in.dy.row_range(0, 5), in.operands[0].row_range(0, 5),
                                              golden::Summation::ordered, DType::fp64);
     }},
    {"weight_transposed_in_the_input_gradient", "linear",
     [](const Checked& in, Tensors& gradients) {
       gradients[0] =
           golden::product(in.dy, in.operands[1], nullptr, golden::Summation::ordered, DType::fp64);
     }},
    {"norm_without_the_projection", "rms_norm",
     [](const Checked& in, Tensors& gradients) {
       const std::int64_t cols = 12;
       for (std::int64_t i = 0; i < in.dy.elements(); ++i) {
         double squares = 0;
         for (std::int64_t c = 0; c < cols; ++c) {
           const double x = in.operands[0].data<double>()[i / cols * cols + c];
           squares += x * x;
         }
         gradients[0].data<double>()[i] = in.dy.data<double>()[i] * in.operands[1].data<double>()[i % cols] /
                                          std::sqrt(squares / double(cols) + kEps);
       }
     }},
    {"norm_without_epsilon", "rms_norm",
     [](const Checked& in, Tensors& gradients) {
       gradients[0] = golden::rms_norm_backward(in.operands[0], in.operands[1], 0, in.dy).x;
     }},
    {"shift_missing_in_the_table", "modulated_rms_norm",
     [](const Checked&, Tensors& gradients) { clear_columns(gradients[2], 3 * 10, 10); }},
    {"scale_missing_in_the_table", "modulated_rms_norm",
     [](const Checked&, Tensors& gradients) { clear_columns(gradients[2], 4 * 10, 10); }},
    {"scale_in_the_part_beside_it", "modulated_rms_norm",
     [](const Checked& in, Tensors& gradients) {
       const auto parts = golden::modulated_rms_norm_backward(in.operands[0], in.operands[1], kEps,
                                                              {in.operands[2], 4}, chosen(7), in.dy);
       gradients[2] = golden::table_gradient(in.operands[2].shape(), {{parts.shift, 3}, {parts.scale, 5}});
     }},
    {"modulation_missing_in_the_norm", "modulated_rms_norm",
     [](const Checked& in, Tensors& gradients) {
       gradients[0] = golden::rms_norm_backward(in.operands[0], in.operands[1], kEps, in.dy).x;
     }},
    {"a_weight_of_one_head_only", "qk_norm",
     [](const Checked& in, Tensors& gradients) {
       const auto head = [](const Tensor& x) {
         Tensor first(DType::fp64, {5, 8});
         for (std::int64_t i = 0; i < 40; ++i) first.data<double>()[i] = x.data<double>()[i / 8 * 24 + i % 8];
         return first;
       };
       gradients[1] =
           golden::rms_norm_backward(head(in.operands[0]), in.operands[1], kEps, head(in.dy)).weight;
     }},
    {"rope_turned_forward_again", "mm_rope",
     [](const Checked& in, Tensors& gradients) {
       gradients[0] = golden::mm_rope(in.dy, Rotary().cos, Rotary().sin);
     }},
    {"rope_partners_read_each_others_sine", "mm_rope",
     [](const Checked& in, Tensors& gradients) {
       const Tensor sin = Rotary().sin;
       gradients[0] = golden::mm_rope_backward(
           in.dy, Rotary().cos,
           tensor_of(sin.shape(), [&](std::int64_t i) { return sin.at(i / 6 * 6 + (i + 3) % 6); }));
     }},
    {"attention_gradients_of_keys_and_values_exchanged", "full_attention",
     [](const Checked&, Tensors& gradients) { std::swap(gradients[1], gradients[2]); }},
    {"attention_logits_not_scaled", "full_attention",
     [](const Checked&, Tensors& gradients) { scale_by(gradients[0], std::sqrt(12.0)); }},
    {"attention_gradient_of_one_query_missing", "full_attention_of_more_than_a_block_of_queries",
     [](const Checked& in, Tensors& gradients) {
       gradients[1] = golden::full_attention_backward(in.operands[0].row_range(0, 66), in.operands[1],
                                                      in.operands[2], in.dy.row_range(0, 66))
                          .k;
     }},
    {"value_and_gate_exchanged", "swiglu",
     [](const Checked&, Tensors& gradients) {
       for (std::int64_t row = 0; row < 4; ++row) {
         double* at = gradients[0].data<double>() + row * 18;
         std::swap_ranges(at, at + 9, at + 9);
       }
     }},
    {"gate_of_another_part", "gate_residual",
     [](const Checked& in, Tensors& gradients) {
       gradients[1] =
           golden::gate_residual_backward(in.operands[1], {in.operands[2], 5}, chosen(7), in.dy).branch;
     }},
    {"silu_not_differentiated", "adaln_projection",
     [](const Checked& in, Tensors& gradients) {
       gradients[0] = golden::input_gradient(in.dy.reshaped({2, 36}), in.operands[1],
                                             golden::Summation::ordered, DType::fp64);
     }},
    {"bias_of_one_timestep_only", "adaln_projection",
     [](const Checked& in, Tensors& gradients) {
       gradients[2] = golden::bias_gradient(in.dy.reshaped({2, 36}).row_range(0, 1), DType::fp64);
     }},
    {"table_index_off_by_one", "adaln_row_gather",
     [](const Checked& in, Tensors& gradients) {
       Tensor index = chosen(7);
       for (std::int64_t& row : index.values<std::int64_t>()) row = (row + 1) % 6;
       gradients[0] = golden::adaln_row_gather_backward(in.dy, index, 6);
     }},
    {"patch_channel_inside", "video_patch_pack",
     [](const Checked& in, Tensors& gradients) { gradients[0] = in.dy.reshaped(gradients[0].shape()); }},
};
INSTANTIATE_TEST_SUITE_P(host, GoldenBackwardFaults, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- through a block

// A block of a few channels: two heads of 8, 6 of them turned, seven rows, two timesteps.
Config small_config() {
  Config config;
  config.num_attention_heads = 2;
  config.attention_head_dim = 8;
  config.hidden_size = 12;
  config.ffn_dim = 10;
  config.time_embed_dim = 4;
  config.rope_freq_dim = 1;
  config.norm_eps = config.qk_norm_eps = kEps;
  return config;
}

Values inputs_of(const Config& config) {
  const auto tables =
      golden::rotary_tables(exact("positions", {7, 3}, 3), golden::rotary_frequencies(config.rope_freq_dim));
  return {{"hidden_states", exact("hidden_states", {7, config.hidden_size})},
          {"temb", exact("temb", {2, config.time_embed_dim}, 2)},
          {"adaln_indices", chosen(7)},
          {"rotary_cos", tables.cos},
          {"rotary_sin", tables.sin}};
}

// By full name; every norm weight is one number per channel.
Values parameters_of(const Graph& graph, const Config& config) {
  const std::int64_t hidden = config.hidden_size, inner = config.inner_dim(), ffn = config.ffn_dim;
  const std::map<std::string, Shape> shapes = {
      {"adaln_proj.linear.weight", {3 * config.modulation_dim(), config.time_embed_dim}},
      {"adaln_proj.linear.bias", {3 * config.modulation_dim()}},
      {"norm1.weight", {hidden}},
      {"attn.to_q.weight", {inner, hidden}},
      {"attn.to_k.weight", {inner, hidden}},
      {"attn.to_v.weight", {inner, hidden}},
      {"attn.norm_q.weight", {config.attention_head_dim}},
      {"attn.norm_k.weight", {config.attention_head_dim}},
      {"attn.to_out.0.weight", {hidden, inner}},
      {"norm2.weight", {hidden}},
      {"ff.net.0.proj.weight", {2 * ffn, hidden}},
      {"ff.net.2.weight", {hidden, ffn}}};
  Values parameters;
  for (const Node& node : graph.nodes)
    for (const std::string& name : node.parameters)
      parameters[name] = exact(name, shapes.at(name.substr(graph.name.size() + 1)), 0.5);
  return parameters;
}

struct BlockRow {
  const char* name;
  Graph (*graph)(const Config&, std::int64_t);
  std::size_t nodes, parameters;
};
void PrintTo(const BlockRow& row, std::ostream* out) { *out << row.name; }

struct GoldenBlockBackward : testing::TestWithParam<BlockRow> {
  struct Edge {
    std::string node;
    std::size_t input;
  };

  Config config = small_config();
  Graph graph = GetParam().graph(config, 0);
  std::unique_ptr<Execution> golden = golden_execution(true, config);
  Values inputs = inputs_of(config), parameters = parameters_of(graph, config), values;
  Tensor dy;
  double scale = 0;

  void SetUp() override {
    set_thread_count(1);  // a node of seven rows is shorter than a hand-over
    const Tensor y = run();
    dy = exact("dy", y.shape());
    scale = amplitude(dy, y);
  }
  void TearDown() override { set_thread_count(0); }

  Tensors pick(const std::vector<std::string>& names, const Values& from) const {
    Tensors picked;
    for (const auto& name : names) picked.push_back(from.at(name));
    return picked;
  }

  Tensor run() {
    values = inputs;
    for (const Node& node : graph.nodes)
      values[node.name] = golden->run(node, pick(node.inputs, values), pick(node.parameters, parameters));
    return values.at(graph.nodes.back().name);
  }

  // By name of a parameter or a graph input; `without`: the contribution of one edge is forgotten.
  Values backward(const Edge& without = {}) const {
    Values gradients = {{graph.nodes.back().name, dy}};
    for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
      if (!gradients.contains(node->name)) continue;
      const NodeGradients found =
          golden->backward(*node, pick(node->inputs, values), pick(node->parameters, parameters),
                           values.at(node->name), gradients.at(node->name));
      EXPECT_EQ(found.inputs.size(), node->inputs.size()) << node->name;
      EXPECT_EQ(found.parameters.size(), node->parameters.size()) << node->name;
      for (std::size_t i = 0; i < found.inputs.size(); ++i) {
        if (found.inputs[i].empty() || (node->name == without.node && i == without.input)) continue;
        Tensor& sum = gradients[node->inputs[i]];
        sum = sum.empty() ? found.inputs[i] : golden::residual(sum, found.inputs[i]);
      }
      for (std::size_t i = 0; i < found.parameters.size(); ++i)
        gradients[node->parameters[i]] = found.parameters[i];
    }
    return gradients;
  }

  // Of everything that has a gradient: FP64 inputs and parameters.
  Values differences_of_the_block() {
    Values slopes;
    for (Values* group : {&inputs, &parameters})
      for (auto& [name, tensor] : *group)
        if (tensor.dtype() == DType::fp64 && (group == &parameters || std::ranges::count(graph.inputs, name)))
          slopes[name] = differences(tensor, dy, scale, [&] { return run(); });
    run();
    return slopes;
  }

  double worst(const Values& gradients, const Values& slopes) const {
    double worst = 0;
    for (const auto& [name, slope] : slopes)
      worst = larger(worst, gradients.contains(name) ? distance(gradients.at(name), slope, scale) : NAN);
    return worst;
  }
};

TEST_P(GoldenBlockBackward, matches_differences_of_the_block) {
  ASSERT_EQ(graph.nodes.size(), GetParam().nodes);
  ASSERT_EQ(parameters.size(), GetParam().parameters);
  const Values slopes = differences_of_the_block();
  const double measured = worst(backward(), slopes);
  record(measured);
  EXPECT_LE(measured, kLimit);
  EXPECT_EQ(slopes.size(), GetParam().parameters + graph.inputs.size() - (graph.inputs.size() > 1 ? 3 : 0));
}

// Every path a gradient takes carries something: forgetting any one of them shows.
TEST_P(GoldenBlockBackward, needs_every_edge_of_the_graph) {
  const Values slopes = differences_of_the_block();
  ASSERT_LE(worst(backward(), slopes), kLimit);
  for (const Node& node : graph.nodes)
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (values.at(node.inputs[i]).dtype() == DType::fp64) {
        EXPECT_FALSE(worst(backward({node.name, i}), slopes) <= 1000 * kLimit)
            << node.name << " input " << node.inputs[i];
      }
}

INSTANTIATE_TEST_SUITE_P(host, GoldenBlockBackward,
                         testing::Values(BlockRow{"transformer_block", transformer_block, 17, 12},
                                         BlockRow{"refiner_block", refiner_block, 14, 10}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
