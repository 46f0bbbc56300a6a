// The derived bounds: a plain evaluation with the provider's rounding points stays inside, and faults of the
// size of the answer do not.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>

#include "conformance/host/golden_inputs.h"
#include "golden/adaln_projection.h"
#include "golden/fp32_projection.h"
#include "golden/full_attention.h"
#include "golden/gate_residual.h"
#include "golden/linear.h"
#include "golden/mm_rope.h"
#include "golden/ode_step.h"
#include "golden/qk_norm.h"
#include "golden/rms_norm.h"
#include "golden/rotary_tables.h"
#include "golden/swiglu.h"

namespace h3 {
namespace {

// R(.) of the provider's descriptions, and its silu in FP32.
float R(float x) { return round_bf16(x); }
float silu(float x) { return x / (1 + std::exp(-x)); }

constexpr std::int64_t kRows = 24, kCols = 256, kHeads = 2, kDim = 128, kKeys = 50;

Tensor x_of(std::string_view name, Shape shape) {
  return random(name, std::move(shape), DType::bf16).to(DType::fp32);
}

// What every case draws from; BF16 values, as in a block.
struct Inputs {
  Tensor x = x_of("x", {kRows, kCols}), branch = x_of("branch", {kRows, kCols});
  Tensor weight = random("norm", {kCols}, DType::bf16),
         head_weight = random("head_norm", {kDim}, DType::bf16);
  Tensor table = x_of("table", {3, 3 * kCols}), index{DType::i64, {kRows}};
  Tensor w = random("w", {40, kCols}, DType::bf16), b = random("b", {40}, DType::bf16);
  Tensor w32 = random("w32", {40, kCols}), b32 = random("b32", {40});
  Tensor w_adaln = random("w_adaln", {36, kCols}, DType::bf16),
         b_adaln = random("b_adaln", {36}, DType::bf16);
  Tensor q = x_of("q", {kRows, kHeads, kDim}), k = x_of("k", {kKeys, kHeads, kDim}),
         v = x_of("v", {kKeys, kHeads, kDim});
  golden::RotaryTables rotary =
      golden::rotary_tables(random("positions", {kRows, 3}), golden::rotary_frequencies());

  Inputs() {
    for (std::int64_t s = 0; s < kRows; ++s) index.data<std::int64_t>()[s] = s % 3;
  }
  golden::TablePart part(int part) const { return {table, part}; }
  float entry(std::int64_t i, int part) const {
    return table.at(i / kCols % 3 * 3 * kCols + part * kCols + i % kCols);
  }
};

float inverse_rms(const Tensor& x, std::int64_t row, std::int64_t cols) {
  float sum = 0;
  for (std::int64_t c = 0; c < cols; ++c) sum += x.at(row * cols + c) * x.at(row * cols + c);
  return 1 / std::sqrt(sum / float(cols) + 1e-5f);
}

Tensor norm(const Tensor& x, const Tensor& weight) {
  const std::int64_t cols = weight.elements();
  return tensor_of(x.shape(), [&](std::int64_t i) {
    return R(x.at(i) * inverse_rms(x, i / cols, cols) * weight.at(i % cols));
  });
}

Tensor projection(const Tensor& x, const Tensor& w, const Tensor* b) {
  return tensor_of({x.rows(), w.rows()}, [&](std::int64_t i) {
    float sum = 0;
    for (std::int64_t k = 0; k < w.cols(); ++k)
      sum += x.at(i / w.rows() * w.cols() + k) * w.at(i % w.rows() * w.cols() + k);
    return b ? sum + b->at(i % w.rows()) : sum;
  });
}

Tensor rounded(const Tensor& x) {
  return tensor_of(x.shape(), [&](std::int64_t i) { return R(x.at(i)); });
}

struct BoundRow {
  const char* name;
  std::function<Tensor(const Inputs&)> golden, bound, provider;
};
void PrintTo(const BoundRow& row, std::ostream* out) { *out << row.name; }

const BoundRow kBounds[] = {
    {"rms_norm", [](const Inputs& in) { return golden::rms_norm(in.x, in.weight, 1e-5); },
     [](const Inputs& in) { return golden::rms_norm_bound(in.x, in.weight, 1e-5); },
     [](const Inputs& in) { return norm(in.x, in.weight); }},
    {"modulated_rms_norm",
     [](const Inputs& in) {
       return golden::modulated_rms_norm(in.x, in.weight, 1e-5, in.part(0), in.part(1), in.index);
     },
     [](const Inputs& in) {
       return golden::modulated_rms_norm_bound(in.x, in.weight, 1e-5, in.part(0), in.part(1), in.index);
     },
     [](const Inputs& in) {
       const Tensor n = norm(in.x, in.weight);
       return tensor_of(
           n.shape(), [&](std::int64_t i) { return R(R(n.at(i) * R(1 + in.entry(i, 1))) + in.entry(i, 0)); });
     }},
    {"qk_norm", [](const Inputs& in) { return golden::qk_norm(in.x, in.head_weight, 1e-5); },
     [](const Inputs& in) { return golden::qk_norm_bound(in.x, in.head_weight, 1e-5); },
     [](const Inputs& in) {
       return norm(in.x.reshaped({2 * kRows, kDim}), in.head_weight).reshaped(in.x.shape());
     }},
    {"mm_rope", [](const Inputs& in) { return golden::mm_rope(in.q, in.rotary.cos, in.rotary.sin); },
     [](const Inputs& in) { return golden::mm_rope_bound(in.q, in.rotary.cos, in.rotary.sin); },
     [](const Inputs& in) {
       return tensor_of(in.q.shape(), [&](std::int64_t i) {
         const std::int64_t s = i / (kHeads * kDim), c = i % kDim;
         if (c >= 96) return in.q.at(i);
         const float cos = R(in.rotary.cos.at(s * 96 + c)), sin = R(in.rotary.sin.at(s * 96 + c));
         const float partner = c < 48 ? -in.q.at(i + 48) : in.q.at(i - 48);
         return R(R(in.q.at(i) * cos) + R(partner * sin));
       });
     }},
    {"full_attention", [](const Inputs& in) { return golden::full_attention(in.q, in.k, in.v); },
     [](const Inputs& in) { return golden::full_attention_bound(in.q, in.k, in.v); },
     [](const Inputs& in) {
       return tensor_of({kRows, kHeads * kDim}, [&](std::int64_t i) {
         const std::int64_t head = i / kDim % kHeads, c = i % kDim, query = i / kDim * kDim;
         float total = 0, sum = 0;
         for (std::int64_t s = 0; s < kKeys; ++s) {
           const std::int64_t key = (s * kHeads + head) * kDim;
           float logit = 0;
           for (std::int64_t e = 0; e < kDim; ++e) logit += in.q.at(query + e) * in.k.at(key + e);
           const float weight = std::exp(logit / std::sqrt(float(kDim)));
           total += weight;
           sum += R(weight) * in.v.at(key + c);
         }
         return R(sum / total);
       });
     }},
    {"linear", [](const Inputs& in) { return golden::linear(in.x, in.w, &in.b); },
     [](const Inputs& in) { return golden::linear_bound(in.x, in.w, &in.b); },
     [](const Inputs& in) { return rounded(projection(in.x, in.w, &in.b)); }},
    {"linear_without_bias", [](const Inputs& in) { return golden::linear(in.x, in.w, nullptr); },
     [](const Inputs& in) { return golden::linear_bound(in.x, in.w, nullptr); },
     [](const Inputs& in) { return rounded(projection(in.x, in.w, nullptr)); }},
    {"fp32_projection", [](const Inputs& in) { return golden::fp32_projection(in.x, in.w32, in.b32); },
     [](const Inputs& in) { return golden::fp32_projection_bound(in.x, in.w32, in.b32); },
     [](const Inputs& in) { return projection(in.x, in.w32, &in.b32); }},
    {"adaln_projection",
     [](const Inputs& in) { return golden::adaln_projection(in.x, in.w_adaln, in.b_adaln); },
     [](const Inputs& in) { return golden::adaln_projection_bound(in.x, in.w_adaln, in.b_adaln); },
     [](const Inputs& in) {
       const Tensor z = tensor_of(in.x.shape(), [&](std::int64_t i) { return R(silu(in.x.at(i))); });
       return rounded(projection(z, in.w_adaln, &in.b_adaln)).reshaped({3 * kRows, 12});
     }},
    {"swiglu", [](const Inputs& in) { return golden::swiglu(in.x); },
     [](const Inputs& in) { return golden::swiglu_bound(in.x); },
     [](const Inputs& in) {
       return tensor_of({kRows, kCols / 2}, [&](std::int64_t i) {
         const std::int64_t value = i / (kCols / 2) * kCols + i % (kCols / 2);
         return R(in.x.at(value) * R(silu(in.x.at(value + kCols / 2))));
       });
     }},
    {"gate_residual",
     [](const Inputs& in) { return golden::gate_residual(in.x, in.branch, in.part(2), in.index); },
     [](const Inputs& in) { return golden::gate_residual_bound(in.x, in.branch, in.part(2), in.index); },
     [](const Inputs& in) {
       return tensor_of(in.x.shape(),
                        [&](std::int64_t i) { return R(in.x.at(i) + R(in.entry(i, 2) * in.branch.at(i))); });
     }},
    {"residual", [](const Inputs& in) { return golden::residual(in.x, in.branch); },
     [](const Inputs& in) { return golden::residual_bound(in.x, in.branch); },
     [](const Inputs& in) {
       return tensor_of(in.x.shape(), [&](std::int64_t i) { return R(in.x.at(i) + in.branch.at(i)); });
     }},
    {"ode_step", [](const Inputs& in) { return golden::ode_step(in.w32, in.w32, 0.3f, 0.7f, 0.6f); },
     [](const Inputs& in) { return golden::ode_step_bound(in.w32, in.w32, 0.3f, 0.7f, 0.6f); },
     [](const Inputs& in) {
       const float s = 1 - 0.3f, r = 0.6f / 0.7f;
       return tensor_of(in.w32.shape(), [&](std::int64_t i) {
         const float x = in.w32.at(i), clean = x + s * x;
         return r * x + (1 - r) * clean;
       });
     }},
};

struct GoldenBounds : testing::TestWithParam<BoundRow> {
  Inputs in;
  Tensor golden = GetParam().golden(in), bound = GetParam().bound(in);

  // Share of elements further from the golden than the bound, and the largest distance in bounds.
  struct Verdict {
    double outside, worst;
  };
  Verdict judge(const std::function<double(std::int64_t)>& y) const {
    std::int64_t outside = 0;
    double worst = 0;
    for (std::int64_t i = 0; i < golden.elements(); ++i) {
      const double distance = std::fabs(y(i) - double(golden.at(i)));
      if (!(distance <= bound.at(i))) ++outside;
      if (bound.at(i) > 0) worst = std::max(worst, distance / double(bound.at(i)));
    }
    return {double(outside) / double(golden.elements()), worst};
  }
};

TEST_P(GoldenBounds, hold_for_the_rounding_points_of_the_provider) {
  const Tensor provider = GetParam().provider(in);
  ASSERT_EQ(provider.shape(), golden.shape());
  const Verdict verdict = judge([&](std::int64_t i) { return provider.at(i); });
  RecordProperty("metric", "share of the bound");
  RecordProperty("measured", fmt::format("{:.3f}", verdict.worst));
  EXPECT_EQ(verdict.outside, 0);
  EXPECT_GT(verdict.worst, 0) << "a comparison of something with itself";
}

TEST_P(GoldenBounds, reject_zeros_doubles_and_moved_rows) {
  const std::int64_t cols = golden.cols(), count = golden.elements();
  EXPECT_GT(judge([](std::int64_t) { return 0.0; }).outside, 0.6);
  EXPECT_GT(judge([&](std::int64_t i) { return 2.0 * golden.at(i); }).outside, 0.6);
  EXPECT_GT(judge([&](std::int64_t i) { return double(golden.at((i + cols) % count)); }).outside, 0.6);
  EXPECT_EQ(judge([](std::int64_t) { return double(NAN); }).outside, 1);
}

INSTANTIATE_TEST_SUITE_P(host, GoldenBounds, testing::ValuesIn(kBounds),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
