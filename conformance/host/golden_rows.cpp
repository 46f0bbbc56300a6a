// Every golden row against what is known about it without computing it the same way: identities, printed
// values, plain loops in a wider type, and errors for inputs outside its domain.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "conformance/host/golden_inputs.h"
#include "golden/adaln_projection.h"
#include "golden/adaln_row_gather.h"
#include "golden/final_adaln_out.h"
#include "golden/fp32_projection.h"
#include "golden/full_attention.h"
#include "golden/gate_residual.h"
#include "golden/mm_rope.h"
#include "golden/ode_step.h"
#include "golden/packing.h"
#include "golden/qk_norm.h"
#include "golden/rms_norm.h"
#include "golden/rotary_tables.h"
#include "golden/swiglu.h"
#include "golden/timestep_mlp.h"
#include "golden/timestep_sinusoid.h"
#include "golden/video_patch_pack_unpack.h"
#include "harness/compare/first_difference.h"
#include "model/parallel.h"

namespace h3 {
namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

AssertionResult close(const Tensor& y, const Tensor& expected, double limit) {
  const double error = relative_error(y, expected);
  if (error <= limit) return AssertionSuccess() << "relative error " << error;
  return AssertionFailure() << "relative error " << error << ", limit " << limit;
}

AssertionResult equal(const Tensor& y, const Tensor& expected) {
  return identical(y, expected) ? AssertionSuccess() : AssertionFailure() << "bytes differ";
}

Tensor listed(std::initializer_list<double> values) {
  return tensor_of({std::int64_t(values.size())}, [&](std::int64_t i) { return values.begin()[i]; });
}

Tensor columns(const Tensor& x, std::int64_t first, std::int64_t count) {
  return tensor_of({x.rows(), count},
                   [&](std::int64_t i) { return x.at(i / count * x.cols() + first + i % count); });
}

constexpr double kFp32 = 2e-7;  // two roundings to FP32, relative to the largest value

// One case: a fact about a row.
struct FactRow {
  const char* name;
  std::function<AssertionResult()> holds;
};
void PrintTo(const FactRow& row, std::ostream* out) { *out << row.name; }

struct GoldenFacts : testing::TestWithParam<FactRow> {};

TEST_P(GoldenFacts, hold) { EXPECT_TRUE(GetParam().holds()); }

AssertionResult attention_is_the_plain_formula() {
  const std::int64_t queries = 5, keys = 11, heads = 2, dim = 12;
  const Tensor q = random("q", {queries, heads, dim}), k = random("k", {keys, heads, dim});
  const Tensor v = random("v", {keys, heads, dim});
  const Tensor expected = tensor_of({queries, heads * dim}, [&](std::int64_t i) {
    const std::int64_t s = i / (heads * dim), head = i / dim % heads, c = i % dim;
    long double total = 0, sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      long double logit = 0;
      for (std::int64_t e = 0; e < dim; ++e)
        logit += (long double)q.at((s * heads + head) * dim + e) * k.at((j * heads + head) * dim + e);
      const long double weight = std::exp(logit / std::sqrt((long double)dim));
      total += weight;
      sum += weight * v.at((j * heads + head) * dim + c);
    }
    return sum / total;
  });
  return close(golden::full_attention(q, k, v), expected, kFp32);
}

// Adding one vector to every key adds one number to all logits of a query. The keys are coarse: the sum is
// exact.
AssertionResult attention_ignores_a_shift_of_all_keys() {
  const Tensor q = random("q", {9, 2, 16}), v = random("v", {21, 2, 16});
  const Tensor k = random("k", {21, 2, 16}, DType::bf16).to(DType::fp32);
  const Tensor moved = tensor_of(k.shape(), [&](std::int64_t i) { return k.at(i) + 3.5 * (i % 16 - 8); });
  return close(golden::full_attention(q, moved, v), golden::full_attention(q, k, v), kFp32);
}

AssertionResult attention_stands_logits_in_the_thousands() {
  const Tensor q = tensor_of({1, 1, 4}, [](std::int64_t) { return 100; });
  const Tensor k = tensor_of({3, 1, 4}, [](std::int64_t i) { return i / 4 == 1 ? 40 : -40; });  // +-8000
  const Tensor v = random("v", {3, 1, 4});
  return equal(golden::full_attention(q, k, v), v.row_range(1, 1).reshaped({1, 4}));
}

AssertionResult attention_rows_do_not_depend_on_each_other() {
  const Tensor q = random("q", {300, 3, 20}), k = random("k", {77, 3, 20}), v = random("v", {77, 3, 20});
  const Tensor all = golden::full_attention(q, k, v);
  const Tensor part = golden::full_attention(q.row_range(251, 7), k, v);
  return equal(part, all.row_range(251, 7));
}

AssertionResult attention_does_not_depend_on_the_thread_count() {
  const Tensor q = random("q", {300, 3, 20}), k = random("k", {77, 3, 20}), v = random("v", {77, 3, 20});
  set_thread_count(1);
  const Tensor alone = golden::full_attention(q, k, v);
  set_thread_count(3);
  const Tensor together = golden::full_attention(q, k, v);
  set_thread_count(0);
  return equal(alone, together);
}

AssertionResult equal_keys_average_the_values() {
  const Tensor q = random("q", {2, 1, 8}), k = tensor_of({5, 1, 8}, [](std::int64_t) { return 0.5; });
  const Tensor v = random("v", {5, 1, 8});
  const Tensor expected = tensor_of({2, 8}, [&](std::int64_t i) {
    double sum = 0;
    for (std::int64_t s = 0; s < 5; ++s) sum += v.at(s * 8 + i % 8);
    return sum / 5;
  });
  return close(golden::full_attention(q, k, v), expected, kFp32);
}

AssertionResult rms_norm_of_a_constant() {
  const Tensor x = tensor_of({3, 40}, [](std::int64_t i) { return i / 40 - 1.5; });
  const Tensor w = random("w", {40});
  const Tensor expected = tensor_of({3, 40}, [&](std::int64_t i) {
    const double c = i / 40 - 1.5;
    return w.at(i % 40) * c / std::sqrt(c * c + 0.01);
  });
  return close(golden::rms_norm(x, w, 0.01), expected, kFp32);
}

AssertionResult rms_norm_ignores_a_power_of_two() {
  const Tensor x = random("x", {4, 33}), w = random("w", {33});
  const Tensor larger = tensor_of(x.shape(), [&](std::int64_t i) { return 1024 * x.at(i); });
  return equal(golden::rms_norm(larger, w, 0x1p-17), golden::rms_norm(x, w, 0x1p-37));
}

AssertionResult qk_norm_is_the_norm_of_each_head() {
  const Tensor x = random("x", {6, 3 * 16}), w = random("w", {16});
  const Tensor y = golden::qk_norm(x, w, 1e-5);
  for (std::int64_t head = 0; head < 3; ++head)
    if (!identical(columns(y, head * 16, 16), golden::rms_norm(columns(x, head * 16, 16), w, 1e-5)))
      return AssertionFailure() << "head " << head;
  return AssertionSuccess();
}

AssertionResult modulation_reads_its_part_and_its_row() {
  const Tensor x = random("x", {4, 8}), w = random("w", {8}), table = random("table", {6, 6 * 8});
  const Tensor index = indices({5, 0, 3, 3});
  const Tensor plain = golden::rms_norm(x, w, 1e-5);
  const Tensor expected = tensor_of({4, 8}, [&](std::int64_t i) {
    const std::int64_t row = index.data<std::int64_t>()[i / 8] * 48 + i % 8;
    return plain.at(i) * (1 + double(table.at(row + 4 * 8))) + table.at(row + 3 * 8);
  });
  return close(golden::modulated_rms_norm(x, w, 1e-5, {table, 3}, {table, 4}, index), expected, kFp32);
}

AssertionResult rope_and_its_inverse_cancel() {
  const Tensor x = random("x", {7, 2, 128}), positions = random("positions", {7, 3});
  const auto tables = golden::rotary_tables(positions, golden::rotary_frequencies());
  const Tensor back = tensor_of(tables.sin.shape(), [&](std::int64_t i) { return -tables.sin.at(i); });
  return close(golden::mm_rope(golden::mm_rope(x, tables.cos, tables.sin), tables.cos, back), x, 3e-7);
}

AssertionResult rope_turns_pairs_48_apart_and_keeps_the_rest() {
  const Tensor x = random("x", {5, 2, 128}), positions = random("positions", {5, 3});
  const auto [cos, sin] = golden::rotary_tables(positions, golden::rotary_frequencies());
  const Tensor y = golden::mm_rope(x, cos, sin);
  for (std::int64_t head = 0; head < 10; ++head)
    for (std::int64_t c = 0; c < 128; ++c) {
      const std::int64_t i = head * 128 + c, partner = i + 48;
      if (c >= 96 && y.at(i) != x.at(i)) return AssertionFailure() << "channel " << c << " changed";
      if (c >= 48) continue;
      const double before = std::hypot(x.at(i), x.at(partner)), after = std::hypot(y.at(i), y.at(partner));
      if (std::fabs(after - before) > 3e-7 * before)
        return AssertionFailure() << "pair " << c << " changed length";
    }
  return AssertionSuccess();
}

AssertionResult rotary_example_of_one_row() {
  Tensor position(DType::fp64, {1, 3});
  position.data<double>()[0] = 37.0 / 3, position.data<double>()[1] = 4.686291501;
  position.data<double>()[2] = -6.627416998;
  const auto [cos, sin] = golden::rotary_tables(position, golden::rotary_frequencies());
  const double angles[3][3] = {{12.333333, 6.935543, 3.9001424},
                               {4.6862917, 2.6352956, 1.4819355},
                               {-6.627417, -3.7268705, -2.0957732}};
  for (std::int64_t i = 0; i < 96; ++i) {
    const std::int64_t k = i % 16, axis = i / 16 % 3;
    if (k >= 3) continue;
    if (std::fabs(cos.at(i) - std::cos(angles[axis][k])) > 1e-6 ||
        std::fabs(sin.at(i) - std::sin(angles[axis][k])) > 1e-6)
      return AssertionFailure() << "column " << i;
  }
  return AssertionSuccess();
}

// To one ulp: the published ones come from another power function. The provider fixture asks for equality.
AssertionResult rotary_frequencies_are_the_published_ones() {
  const Tensor published =
      listed({1.0, 0.562341332, 0.316227764, 0.177827939, 0.100000001, 0.0562341288, 0.0316227786,
              0.0177827943, 0.00999999978, 0.00562341325, 0.00316227786, 0.00177827943, 0.00100000005,
              0.000562341302, 0.000316227766, 0.00017782794});
  const Tensor ours = golden::rotary_frequencies();
  const Tensor ratio = tensor_of({16}, [&](std::int64_t k) { return double(ours.at(k)) / published.at(k); });
  return close(ratio, tensor_of({16}, [](std::int64_t) { return 1; }), 0x1p-23);
}

AssertionResult sinusoid_has_the_cosines_first() {
  const Tensor e = golden::timestep_sinusoid(listed({0, 0.25, 1}));
  for (std::int64_t k = 0; k < 256; ++k)
    if (e.at(k) != (k < 128 ? 1 : 0)) return AssertionFailure() << "t = 0, feature " << k;
  const auto half = [&](std::int64_t first) {
    return tensor_of({6}, [&](std::int64_t i) { return e.at((1 + i / 3) * 256 + first + i % 3); });
  };
  if (const auto cosines =
          close(half(0), listed({0.9689124, 0.9730604, 0.9766572, 0.5403023, 0.59737533, 0.6479058}), kFp32);
      !cosines)
    return cosines;
  return close(half(128), listed({0.24740396, 0.23055013, 0.21480395, 0.841471, 0.8019618, 0.7617204}),
               kFp32);
}

AssertionResult timestep_mlp_is_two_layers() {
  const Tensor e = random("e", {2, 6}), w1 = random("w1", {5, 6}), b1 = random("b1", {5});
  const Tensor w2 = random("w2", {3, 5}), b2 = random("b2", {3});
  const Tensor expected = tensor_of({2, 3}, [&](std::int64_t i) {
    double y = b2.at(i % 3);
    for (std::int64_t h = 0; h < 5; ++h) {
      double a = b1.at(h);
      for (std::int64_t k = 0; k < 6; ++k) a += double(w1.at(h * 6 + k)) * e.at(i / 3 * 6 + k);
      y += w2.at(i % 3 * 5 + h) * a / (1 + std::exp(-a));
    }
    return y;
  });
  return close(golden::timestep_mlp(e, w1, b1, w2, b2), expected, kFp32);
}

AssertionResult adaln_tables_have_the_tag_outside_the_parts() {
  const std::int64_t hidden = 2, width = 6 * hidden;
  const Tensor temb = random("temb", {2, 4}), w = random("w", {3 * width, 4}), b = random("b", {3 * width});
  const Tensor table = golden::adaln_projection(temb, w, b);
  const Tensor expected = tensor_of({6, width}, [&](std::int64_t i) {
    const std::int64_t u = i / width / 3, tag = i / width % 3, output = tag * width + i % width;
    double y = b.at(output);
    for (std::int64_t k = 0; k < 4; ++k) {
      const double t = temb.at(u * 4 + k);
      y += w.at(output * 4 + k) * t / (1 + std::exp(-t));
    }
    return y;
  });
  return close(table, expected, kFp32);
}

AssertionResult gathered_rows_are_copies() {
  const Tensor table = random("table", {6, 5});
  const Tensor index = golden::adaln_index(indices({1, 0, 1}), indices({2, 1, 0}), 2);
  return equal(golden::adaln_row_gather(table, index), tensor_of({3, 5}, [&](std::int64_t i) {
                 const std::int64_t rows[] = {5, 1, 3};
                 return table.at(rows[i / 5] * 5 + i % 5);
               }));
}

AssertionResult norm_out_is_indexed_by_timestep_shift_first() {
  const Tensor x = random("x", {3, 4}), w = random("w", {4}), table = random("table", {2, 8});
  const Tensor expected = golden::modulated_rms_norm(x, w, 1e-5, {columns(table, 0, 4)},
                                                     {columns(table, 4, 4)}, indices({1, 0, 1}));
  return equal(golden::final_adaln_out(x, w, 1e-5, table, indices({1, 0, 1})), expected);
}

// silu(g) - silu(-g) = g.
AssertionResult swiglu_gates_with_the_second_half() {
  const Tensor value = random("value", {3, 10}), gate = random("gate", {3, 10});
  const auto joined = [&](double sign) {
    return tensor_of({3, 20}, [&](std::int64_t i) {
      const std::int64_t at = i / 20 * 10 + i % 10;
      return i % 20 < 10 ? value.at(at) : sign * 8 * gate.at(at);
    });
  };
  const Tensor plus = golden::swiglu(joined(1)), minus = golden::swiglu(joined(-1));
  const Tensor difference =
      tensor_of({3, 10}, [&](std::int64_t i) { return double(plus.at(i)) - minus.at(i); });
  return close(difference, tensor_of({3, 10}, [&](std::int64_t i) { return 8.0 * gate.at(i) * value.at(i); }),
               4e-7);
}

AssertionResult a_closed_gate_keeps_the_residual() {
  const Tensor x = random("x", {3, 6}), branch = random("branch", {3, 6});
  const Tensor table = tensor_of({2, 12}, [](std::int64_t i) { return i / 12 == 1 && i % 12 >= 6 ? 1 : 0; });
  if (!identical(golden::gate_residual(x, branch, {table, 1}, indices({0, 0, 0})), x))
    return AssertionFailure() << "gate 0";
  return equal(golden::gate_residual(x, branch, {table, 1}, indices({1, 1, 1})), golden::residual(x, branch));
}

AssertionResult patches_have_the_channel_outside() {
  const Tensor latents = random("latents", {2, 3, 2, 4, 6});
  const Tensor rows = golden::video_patch_pack(latents);
  if (rows.shape() != Shape{2, 12, 12}) return AssertionFailure() << to_string(rows.shape());
  // b = 1, c = 2, t = 1, y = 3, x = 4: row (1 * 2 + 1) * 3 + 2, inside 2 * 4 + 1 * 2 + 0.
  if (rows.at((1 * 12 + 11) * 12 + 10) != latents.at((((1 * 3 + 2) * 2 + 1) * 4 + 3) * 6 + 4))
    return AssertionFailure() << "a value went elsewhere";
  return equal(golden::video_patch_unpack(rows, latents.shape()), latents);
}

AssertionResult packed_rows_come_back() {
  const Tensor text = random("text", {2, 3}), video = random("video", {1, 3}),
               audio = random("audio", {2, 3});
  const Tensor packed =
      golden::pack_rows({{text, indices({0, 3})}, {video, indices({4})}, {audio, indices({2, 1})}});
  if (!identical(golden::select_rows(packed, indices({2, 1})), audio)) return AssertionFailure() << "audio";
  return equal(golden::select_rows(packed, indices({0, 3})), text);
}

AssertionResult four_euler_steps() {
  const double sigmas[] = {1, 0.972972989, 0.923076928, 0.800000012, 0};
  const double expected[] = {2.01351357, 2.03846169, 2.10000014, 2.50000024};
  Tensor x = listed({2});
  for (int i = 0; i < 4; ++i) {
    x = golden::ode_step(x, listed({0.5}), 1 - float(sigmas[i]), float(sigmas[i]), float(sigmas[i + 1]));
    if (const auto good = close(x, listed({expected[i]}), 3e-7); !good) return good;
  }
  return AssertionSuccess();
}

const FactRow kFacts[] = {
    {"attention_is_the_plain_formula", attention_is_the_plain_formula},
    {"attention_ignores_a_shift_of_all_keys", attention_ignores_a_shift_of_all_keys},
    {"attention_stands_logits_in_the_thousands", attention_stands_logits_in_the_thousands},
    {"attention_rows_do_not_depend_on_each_other", attention_rows_do_not_depend_on_each_other},
    {"attention_does_not_depend_on_the_thread_count", attention_does_not_depend_on_the_thread_count},
    {"equal_keys_average_the_values", equal_keys_average_the_values},
    {"rms_norm_of_a_constant", rms_norm_of_a_constant},
    {"rms_norm_ignores_a_power_of_two", rms_norm_ignores_a_power_of_two},
    {"qk_norm_is_the_norm_of_each_head", qk_norm_is_the_norm_of_each_head},
    {"modulation_reads_its_part_and_its_row", modulation_reads_its_part_and_its_row},
    {"rope_and_its_inverse_cancel", rope_and_its_inverse_cancel},
    {"rope_turns_pairs_48_apart_and_keeps_the_rest", rope_turns_pairs_48_apart_and_keeps_the_rest},
    {"rotary_example_of_one_row", rotary_example_of_one_row},
    {"rotary_frequencies_are_the_published_ones", rotary_frequencies_are_the_published_ones},
    {"sinusoid_has_the_cosines_first", sinusoid_has_the_cosines_first},
    {"timestep_mlp_is_two_layers", timestep_mlp_is_two_layers},
    {"adaln_tables_have_the_tag_outside_the_parts", adaln_tables_have_the_tag_outside_the_parts},
    {"gathered_rows_are_copies", gathered_rows_are_copies},
    {"norm_out_is_indexed_by_timestep_shift_first", norm_out_is_indexed_by_timestep_shift_first},
    {"swiglu_gates_with_the_second_half", swiglu_gates_with_the_second_half},
    {"a_closed_gate_keeps_the_residual", a_closed_gate_keeps_the_residual},
    {"patches_have_the_channel_outside", patches_have_the_channel_outside},
    {"packed_rows_come_back", packed_rows_come_back},
    {"four_euler_steps", four_euler_steps},
};
INSTANTIATE_TEST_SUITE_P(host, GoldenFacts, testing::ValuesIn(kFacts),
                         [](const auto& info) { return std::string(info.param.name); });

// Inputs outside the domain are refused, not computed with.
struct RefusedRow {
  const char* name;
  std::function<Tensor()> evaluate;
};
void PrintTo(const RefusedRow& row, std::ostream* out) { *out << row.name; }

struct GoldenDomain : testing::TestWithParam<RefusedRow> {};

TEST_P(GoldenDomain, refuses) { EXPECT_THROW(GetParam().evaluate(), Error); }

const RefusedRow kRefused[] = {
    {"timestep_above_one",
     [] {
       return golden::timestep_sinusoid(listed({0.5, 1.0001}));
     }},
    {"timestep_below_zero", [] { return golden::timestep_sinusoid(listed({-1e-6})); }},
    {"timestep_nan", [] { return golden::timestep_sinusoid(listed({NAN})); }},
    {"tag_3", [] { return golden::adaln_index(indices({0}), indices({3}), 1); }},
    {"tag_negative", [] { return golden::adaln_index(indices({0}), indices({-1}), 1); }},
    {"timestep_index_beyond_the_table", [] { return golden::adaln_index(indices({2}), indices({0}), 2); }},
    {"gate_index_beyond_the_table",
     [] {
       const Tensor x = random("x", {1, 4});
       return golden::gate_residual(x, x, {random("table", {3, 4})}, indices({3}));
     }},
    {"gate_part_beyond_the_table",
     [] {
       const Tensor x = random("x", {1, 4});
       return golden::gate_residual(x, x, {random("table", {3, 8}), 2}, indices({0}));
     }},
    {"norm_weight_of_another_width",
     [] {
       return golden::rms_norm(random("x", {2, 4}), random("w", {5}), 1e-5);
     }},
    {"heads_that_do_not_divide",
     [] {
       return golden::qk_norm(random("x", {2, 20}), random("w", {16}), 1e-5);
     }},
    {"rope_tables_of_other_rows",
     [] {
       return golden::mm_rope(random("x", {2, 1, 128}), random("c", {3, 96}), random("s", {3, 96}));
     }},
    {"attention_values_of_other_keys",
     [] {
       return golden::full_attention(random("q", {2, 1, 8}), random("k", {3, 1, 8}), random("v", {4, 1, 8}));
     }},
    {"swiglu_of_odd_width",
     [] {
       return golden::swiglu(random("x", {2, 5}));
     }},
    {"half_a_patch",
     [] {
       return golden::video_patch_pack(random("x", {1, 1, 1, 3, 2}));
     }},
    {"a_packed_row_given_twice",
     [] {
       const Tensor row = random("x", {1, 2});
       return golden::pack_rows({{row, indices({0})}, {row, indices({0})}});
     }},
    {"a_gradient_of_other_columns_than_the_weight_has_rows",
     [] {
       return golden::linear_backward(random("x", {2, 4}), random("w", {3, 4}), random("dy", {2, 4})).x;
     }},
    {"a_gradient_of_other_rows_than_x",
     [] {
       return golden::linear_backward(random("x", {2, 4}), random("w", {3, 4}), random("dy", {1, 3})).weight;
     }},
    {"a_gradient_of_another_norm",
     [] {
       return golden::rms_norm_backward(random("x", {2, 4}), random("w", {4}), 1e-5, random("dy", {4, 2})).x;
     }},
    {"a_scale_index_beyond_the_table",
     [] {
       const Tensor x = random("x", {1, 4});
       return golden::modulated_rms_norm_backward(x, random("w", {4}), 1e-5, {random("table", {3, 4})},
                                                  indices({3}), x)
           .scale;
     }},
    {"a_gradient_of_other_queries",
     [] {
       const Tensor q = random("q", {2, 1, 8});
       return golden::full_attention_backward(q, q, q, random("dy", {3, 8})).q;
     }},
    {"a_swiglu_gradient_of_the_width_of_x",
     [] {
       return golden::swiglu_backward(random("x", {2, 6}), random("dy", {2, 6}));
     }},
    {"a_table_gradient_of_other_parts",
     [] {
       return golden::table_gradient({2, 9}, {{random("part", {2, 4}), 1}});
     }},
    {"sigma_that_rises", [] { return golden::ode_step(listed({1}), listed({1}), 0.5f, 0.5f, 0.6f); }},
    {"bf16_parameters_in_an_fp32_projection",
     [] {
       return golden::fp32_projection(random("x", {1, 4}), random("w", {2, 4}, DType::bf16),
                                      random("b", {2}));
     }},
};
INSTANTIATE_TEST_SUITE_P(host, GoldenDomain, testing::ValuesIn(kRefused),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
