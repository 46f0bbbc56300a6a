// Projections with a LoRA adapter, forward and backward, held against FP64 sums of the same operands.
#include "kernels/lora_linear.h"

#include "conformance/rows/on_cuda.h"
#include "golden/linear.h"
#include "kernels/linear.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

// One row of the table: rows x outputs of the projection; the rank is 8 for even seeds, 16 for odd ones,
// alpha never the rank.
struct LoraOperands {
  explicit LoraOperands(const RowCase& row)
      : rank(row.seed % 2 ? 16 : 8),
        x(synthetic_activation(row.seed, "x", {row.rows, kInputs}, DType::bf16)),
        weight(synthetic_activation(row.seed, "weight", {row.cols, kInputs}, DType::bf16, 0.05f)),
        adapter{synthetic_activation(row.seed, "a", {rank, kInputs}, DType::bf16, 0.05f),
                synthetic_activation(row.seed, "b", {row.cols, rank}, DType::bf16, 0.5f), 12},
        dy(synthetic_activation(row.seed, "dy", {row.rows, row.cols}, DType::bf16)) {}

  static constexpr std::int64_t kInputs = 264;
  std::int64_t rank;
  Tensor x, weight;
  kernels::LoraAdapter adapter;
  Tensor dy;
};

Tensor product(const Tensor& x, const Tensor& weight) { return golden::linear(x, weight, nullptr); }

// a + b * factor, FP32.
Tensor sum(const Tensor& a, const Tensor& b, float factor) {
  Tensor y = a.to(DType::fp32);
  for (std::int64_t i = 0; i < y.elements(); ++i) y.data<float>()[i] += factor * b.at(i);
  return y;
}

Tensor times(const Tensor& a, float factor) {
  Tensor y = a.to(DType::fp32);
  for (float& value : y.values<float>()) value *= factor;
  return y;
}

#ifdef H3_HAVE_CUDA
kernels::LoraAdapter uploaded(const kernels::LoraAdapter& adapter) {
  return {cuda::upload(adapter.a), cuda::upload(adapter.b), adapter.alpha};
}
#endif

// Roundings on the way of the branch: the inner product, the outer one, its scaling; of the base its own;
// then the sum.
struct LoraLinear : testing::TestWithParam<RowCase> {
  static RowProblem problem() {
    const LoraOperands o(GetParam());
    return {{o.x},
            [o](const auto& operands, Tensor& y) {
              kernels::lora_linear(operands[0], o.weight, nullptr, o.adapter, y);
            },
            sum(product(o.x, o.weight), product(product(o.x, o.adapter.a), o.adapter.b), o.adapter.scale()),
            DType::bf16,
            after_roundings(4, DType::bf16),
            H3_ON_CUDA([o](const auto& operands, Tensor& y) {
              Tensor h = cuda::allocate(DType::bf16, {operands[0].rows(), o.rank}),
                     branch = cuda::allocate(DType::bf16, y.shape());
              kernels::cuda::lora_linear(cuda::upload(operands[0]), cuda::upload(o.weight), nullptr,
                                         uploaded(o.adapter), h, branch, y, nullptr);
            })};
  }
};
H3_ROW_CLAIMS(LoraLinear)

// dx: g, dh, the branch, the base, the sum. da: g, dh, the result. db: g, h, the result.
struct LoraLinearBackward : testing::TestWithParam<RowCase> {
  enum Output : std::size_t { dx, da, db };
  static RowProblem problem(Output which) {
    const LoraOperands o(GetParam());
    const auto outputs = [=](const Tensor& y, const Tensor& x) {
      return outputs_with(
          y, which,
          {{DType::bf16, x.shape()}, {DType::bf16, o.adapter.a.shape()}, {DType::bf16, o.adapter.b.shape()}});
    };
    const Tensor h = product(o.x, o.adapter.a), g = times(o.dy, o.adapter.scale());
    const auto outer = golden::linear_backward(h, o.adapter.b, g);
    const auto inner = golden::linear_backward(o.x, o.adapter.a, outer.x);
    const auto base = golden::linear_backward(o.x, o.weight, o.dy);
    const Tensor goldens[] = {sum(base.x, inner.x, 1), inner.weight, outer.weight};
    return {{o.dy, o.x},
            [=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[1]);
              kernels::lora_linear_backward(operands[1], o.weight, o.adapter, operands[0], out[0], out[1],
                                            out[2]);
            },
            goldens[which],
            DType::bf16,
            after_roundings(which == dx ? 5 : 3, DType::bf16),
            H3_ON_CUDA([=](const auto& operands, Tensor& y) {
              auto out = outputs(y, operands[1]);
              const Shape inside = {operands[1].rows(), o.rank};
              Tensor h = cuda::allocate(DType::bf16, inside), dh = cuda::allocate(DType::bf16, inside),
                     g = cuda::allocate(DType::bf16, operands[0].shape()),
                     dbranch = cuda::allocate(DType::bf16, operands[1].shape());
              kernels::cuda::lora_linear_backward(cuda::upload(operands[1]), cuda::upload(o.weight),
                                                  uploaded(o.adapter), cuda::upload(operands[0]), h, dh, g,
                                                  dbranch, out[0], out[1], out[2], nullptr);
            })};
  }
  static RowProblem problem() { return problem(dx); }
};
struct LoraASums : LoraLinearBackward {
  static RowProblem problem() { return LoraLinearBackward::problem(da); }
};
struct LoraBSums : LoraLinearBackward {
  static RowProblem problem() { return LoraLinearBackward::problem(db); }
};
H3_ROW_CLAIMS(LoraLinearBackward)
H3_SUM_CLAIMS(LoraASums)
H3_SUM_CLAIMS(LoraBSums)

constexpr RowCase kRows[] = {
    {"lora_linear", 264, 136, DType::bf16, 8},
    {"lora_linear", 71, 520, DType::bf16, 11},
    {"lora_linear", 1, 24, DType::bf16, 8},
};
INSTANTIATE_TEST_SUITE_P(rows, LoraLinear, testing::ValuesIn(kRows), row_name);
INSTANTIATE_TEST_SUITE_P(rows, LoraLinearBackward, testing::ValuesIn(kRows), row_name);
INSTANTIATE_TEST_SUITE_P(rows, LoraASums, testing::ValuesIn(kRows), row_name);
INSTANTIATE_TEST_SUITE_P(rows, LoraBSums, testing::ValuesIn(kRows), row_name);
H3_ROWS_ON_CUDA(LoraLinear, kRows);
H3_ROWS_ON_CUDA(LoraLinearBackward, kRows);
H3_SUMS_ON_CUDA(LoraASums, kRows);
H3_SUMS_ON_CUDA(LoraBSums, kRows);

// ---- how much the adapter counts

struct AdapterRow {
  const char* name;
  std::int64_t rank;
  float alpha, scale;
};
void PrintTo(const AdapterRow& row, std::ostream* out) { *out << row.name; }

struct LoraAdapter : testing::TestWithParam<AdapterRow> {
  Tensor x = normal("x", {5, 24}), weight = normal("weight", {24, 24}),
         a = normal("a", {GetParam().rank, 24});
  static Tensor normal(const char* name, const Shape& shape) {
    return synthetic_activation(7, name, shape, DType::bf16);
  }
};

TEST_P(LoraAdapter, of_zeros_leaves_the_projection) {
  Tensor y(DType::bf16, {5, 24}), plain(DType::bf16, {5, 24});
  kernels::lora_linear(x, weight, nullptr,
                       {a, filled(DType::bf16, {24, GetParam().rank}, 0), GetParam().alpha}, y);
  kernels::linear(x, weight, nullptr, plain);
  EXPECT_TRUE(bitwise_equal(plain, y));
}

// Ones in A and B, nothing in W: every output is the sum of x times the rank times the scale.
TEST_P(LoraAdapter, counts_alpha_over_rank) {
  const std::int64_t rank = GetParam().rank;
  Tensor y(DType::bf16, {1, 8});
  kernels::lora_linear(
      filled(DType::bf16, {1, 8}, 1), filled(DType::bf16, {8, 8}, 0), nullptr,
      {filled(DType::bf16, {rank, 8}, 1), filled(DType::bf16, {8, rank}, 1), GetParam().alpha}, y);
  EXPECT_TRUE(bitwise_equal(filled(DType::bf16, {1, 8}, 8.0 * double(rank) * double(GetParam().scale)), y));
}

const AdapterRow kAdapters[] = {
    {"rank_8_alpha_12", 8, 12, 1.5f},
    {"rank_16_alpha_8", 16, 8, 0.5f},
    {"alpha_is_the_rank", 8, 8, 1},
};
INSTANTIATE_TEST_SUITE_P(rows, LoraAdapter, testing::ValuesIn(kAdapters),
                         [](const auto& info) { return info.param.name; });

// ---- bad input

struct LoraLinearBadInput : testing::TestWithParam<BadInput> {};
TEST_P(LoraLinearBadInput, is_refused) { EXPECT_TRUE(is_refused(GetParam())); }

const BadInput kBad[] = {
    {"ranks_that_differ", "lora_linear: b is 8x4, expected 8x2",
     [](Tensor& y) {
       kernels::lora_linear(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8, 8}, 1), nullptr,
                            {filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8, 4}, 1), 1}, y);
     }},
    {"alpha_not_a_number", "lora_linear: alpha is nan, expected a finite number",
     [](Tensor& y) {
       kernels::lora_linear(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8, 8}, 1), nullptr,
                            {filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8, 2}, 1), std::nanf("")},
                            y);
     }},
    {"adapter_in_fp32", "lora_linear: a is fp32, expected bf16",
     [](Tensor& y) {
       kernels::lora_linear(filled(DType::bf16, {2, 8}, 1), filled(DType::bf16, {8, 8}, 1), nullptr,
                            {filled(DType::fp32, {2, 8}, 1), filled(DType::bf16, {8, 2}, 1), 1}, y);
     }},
};
INSTANTIATE_TEST_SUITE_P(rows, LoraLinearBadInput, testing::ValuesIn(kBad), bad_name);

}  // namespace
}  // namespace h3
