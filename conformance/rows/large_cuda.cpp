// Tensors of more than 2^31 elements on a Hopper GPU: no row of the output is another one for all the rows
// before it. The rows of the operands repeat after kPeriod rows, and so must the output's: every byte of it
// is held against the same kernel's answer for these rows alone. No power of two is kPeriod rows away, so
// that an index that lost its upper bits meets another row.
#ifdef H3_HAVE_CUDA
#include <cstring>
#include <numeric>

#include "conformance/claims.h"
#include "conformance/rows/on_cuda.h"
#include "kernels/adaln_row_gather.h"
#include "kernels/full_attention.h"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"
#include "kernels/mm_rope.h"
#include "kernels/packing.h"
#include "kernels/qk_norm.h"
#include "kernels/qk_norm_rope.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

namespace strict = kernels::cuda;
using cuda::RowIndex;

constexpr std::int64_t kPeriod = 1021, kHidden = 5376, kFfn = 14336, kHeads = 56, kWidth = 128, kTables = 9;
constexpr float kEps = 1e-5f;

// A launch over rows: operands of one period, on the CPU, and what to do with them on the GPU at any length.
struct Problem {
  std::vector<Tensor> period;
  Shape inner;  // of an output row
  std::function<void(const std::vector<Tensor>& operands, Tensor& y)> run;
  int extra_outputs = 0;  // as large as y
};

Tensor some(const char* name, Shape inner, std::int64_t rows = kPeriod) {
  inner.insert(inner.begin(), rows);
  return synthetic_activation(7, name, inner, DType::bf16);
}
Tensor angles(const char* name) { return synthetic_activation(7, name, {kPeriod, 96}, DType::fp32); }
Tensor table() { return cuda::upload(some("table", {6 * kHidden}, kTables)); }

RowIndex index_of(const Tensor& y) {
  Tensor index(DType::i64, {y.shape()[0]});
  for (std::int64_t s = 0; s < y.shape()[0]; ++s) index.data<std::int64_t>()[s] = s % kPeriod % kTables;
  return {index, kTables};
}

Problem rms_norm() {
  const Tensor weight = cuda::upload(some("weight", {}, kHidden));
  return {{some("x", {kHidden})}, {kHidden}, [=](const auto& in, Tensor& y) {
            strict::rms_norm(in[0], weight, kEps, y, nullptr);
          }};
}

Problem modulated_rms_norm() {
  const Tensor weight = cuda::upload(some("weight", {}, kHidden)), parts = table();
  return {{some("x", {kHidden})}, {kHidden}, [=](const auto& in, Tensor& y) {
            strict::modulated_rms_norm(in[0], weight, kEps, {parts, 0}, {parts, 1}, index_of(y), y, nullptr);
          }};
}

Problem row_gather() {
  const Tensor parts = table();
  return {{some("unused", {8})}, {kHidden}, [=](const auto&, Tensor& y) {
            strict::adaln_row_gather({parts, 2}, index_of(y), y, nullptr);
          }};
}

Problem gate_residual() {
  const Tensor parts = table();
  return {{some("x", {kHidden}), some("branch", {kHidden})}, {kHidden}, [=](const auto& in, Tensor& y) {
            strict::gate_residual(in[0], in[1], {parts, 2}, index_of(y), y, nullptr);
          }};
}

Problem qk_norm() {
  const Tensor weight = cuda::upload(some("weight", {}, kWidth));
  return {{some("q", {kHeads, kWidth})}, {kHeads, kWidth}, [=](const auto& in, Tensor& y) {
            strict::qk_norm(in[0], weight, kEps, y, nullptr);
          }};
}

Problem mm_rope() {
  return {{some("q", {kHeads, kWidth}), angles("cos"), angles("sin")},
          {kHeads, kWidth},
          [](const auto& in, Tensor& y) { strict::mm_rope(in[0], in[1], in[2], y, nullptr); }};
}

Problem qk_norm_rope(bool k_counts) {
  const Tensor weight = cuda::upload(some("weight", {}, kWidth));
  return {{some("q", {kHeads, kWidth}), some("k", {kHeads, kWidth}), angles("cos"), angles("sin")},
          {kHeads, kWidth},
          [=](const auto& in, Tensor& y) {
            const Tensor other = cuda::allocate(DType::bf16, y.shape());
            strict::qk_norm_rope({in[0], weight, k_counts ? other : y}, {in[1], weight, k_counts ? y : other},
                                 kEps, in[2], in[3], nullptr);
            cuda::synchronize();  // before `other` goes
          },
          1};
}
Problem q_of_qk_norm_rope() { return qk_norm_rope(false); }
Problem k_of_qk_norm_rope() { return qk_norm_rope(true); }

Problem swiglu() {
  return {
      {some("x", {2 * kFfn})}, {kFfn}, [](const auto& in, Tensor& y) { strict::swiglu(in[0], y, nullptr); }};
}

Problem linear(std::int64_t inputs, std::int64_t outputs) {
  const Tensor weight = cuda::upload(some("weight", {inputs}, outputs));
  return {{some("x", {inputs})}, {outputs}, [=](const auto& in, Tensor& y) {
            strict::linear(in[0], weight, nullptr, y, nullptr);
          }};
}
Problem gate_up() { return linear(kHidden, 2 * kFfn); }
Problem down() { return linear(kFfn, kHidden); }

Problem packing() {  // every row to the place it has
  return {{some("rows", {kHidden})}, {kHidden}, [](const auto& in, Tensor& y) {
            Tensor places(DType::i64, {y.shape()[0]});
            std::iota(places.data<std::int64_t>(), places.data<std::int64_t>() + places.elements(),
                      std::int64_t(0));
            strict::pack_rows({{in[0], places}}, y, nullptr);
          }};
}

Problem full_attention() {  // many queries, few keys
  const Tensor k = cuda::upload(some("k", {kHeads, kWidth}, 200)),
               v = cuda::upload(some("v", {kHeads, kWidth}, 200));
  return {{some("q", {kHeads, kWidth})}, {kHeads * kWidth}, [=](const auto& in, Tensor& y) {
            strict::full_attention(in[0], k, v, y, nullptr);
          }};
}

struct LargeRow {
  const char* row;
  const char* what;
  std::int64_t rows;
  Problem (*problem)();
};
void PrintTo(const LargeRow& row, std::ostream* out) {
  *out << row.row << '_' << row.what << '_' << row.rows << "_rows_cuda";
}

Tensor repeated(const Tensor& period, std::int64_t rows) {
  Shape shape = period.shape();
  shape[0] = rows;
  Tensor large = cuda::allocate(period.dtype(), shape);
  cuda::copy(cuda::upload(period), large.row_range(0, kPeriod));
  for (std::int64_t done = kPeriod; done < rows; done *= 2) {
    const std::int64_t count = std::min(done, rows - done);
    cuda::copy(large.row_range(0, count), large.row_range(done, count));
  }
  return large;
}

Shape shape_of(std::int64_t rows, const Shape& inner) {
  Shape shape = inner;
  shape.insert(shape.begin(), rows);
  return shape;
}

struct LargeCuda : testing::TestWithParam<LargeRow> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(LargeCuda, repeats_with_its_operands) {
  const LargeRow& row = GetParam();
  const Problem problem = row.problem();
  std::vector<Tensor> few, many;
  for (const Tensor& operand : problem.period) few.push_back(cuda::upload(operand));
  Tensor alone = cuda::allocate(DType::bf16, shape_of(kPeriod, problem.inner));
  problem.run(few, alone);
  cuda::synchronize();
  const Tensor expected = cuda::download(alone);

  const std::int64_t y_bytes = row.rows * std::int64_t(expected.size_bytes() / kPeriod);
  std::int64_t needed =
      y_bytes * (1 + problem.extra_outputs) + (std::int64_t(1) << 28);  // and the small ones
  for (const Tensor& operand : problem.period)
    needed += row.rows * std::int64_t(operand.size_bytes() / kPeriod);
  RecordProperty("gpu_bytes_needed", std::to_string(needed));
  if (cuda::free_bytes() < needed)
    GTEST_SKIP() << "too_little_memory: needs " << needed << " bytes on the GPU, " << cuda::free_bytes()
                 << " are free";

  std::int64_t most = 0;
  for (const Tensor& operand : problem.period) {
    many.push_back(repeated(operand, row.rows));
    most = std::max(most, many.back().elements());
  }
  Tensor y = cuda::allocate(DType::bf16, shape_of(row.rows, problem.inner));
  ASSERT_GT(std::max(most, y.elements()), std::int64_t(1) << 31);
  problem.run(many, y);
  cuda::synchronize();
  for (std::int64_t first = 0; first < row.rows; first += kPeriod) {
    const std::int64_t count = std::min(kPeriod, row.rows - first);
    const Tensor same = expected.row_range(0, count), got = cuda::download(y.row_range(first, count));
    if (std::memcmp(same.bytes(), got.bytes(), same.size_bytes()) == 0) continue;
    FAIL() << "rows from " << first << " on: " << bitwise_equal(same, got).message();
  }
  EXPECT_TRUE(bitwise_equal(
      expected.row_range(0, (row.rows - 1) % kPeriod + 1),
      cuda::download(y.row_range((row.rows - 1) / kPeriod * kPeriod, (row.rows - 1) % kPeriod + 1))));
}

// 400,000 x 5376 and 300,000 x 56 x 128 are just above 2^31 elements, 150,000 x 28,672 above 2^32.
const LargeRow kRows[] = {
    {"h3_rmsnorm", "plain", 400'000, rms_norm},
    {"h3_rmsnorm", "modulated", 400'000, modulated_rms_norm},
    {"adaln_row_gather", "gate", 400'000, row_gather},
    {"adaln_gate_residual", "gate", 400'000, gate_residual},
    {"h3_qk_rmsnorm_d128", "q", 300'000, qk_norm},
    {"h3_mm_rope_3axis_partial", "q", 300'000, mm_rope},
    {"h3_qk_norm_rope", "q", 300'000, q_of_qk_norm_rope},
    {"h3_qk_norm_rope", "k", 300'000, k_of_qk_norm_rope},
    {"packing", "rows", 400'000, packing},
    {"h3_full_attention", "queries", 300'000, full_attention},
    {"h3_swiglu", "all", 150'000, swiglu},
    {"h3_ffn_gate_up_gemm", "output", 150'000, gate_up},
    {"h3_ffn_down_gemm", "input", 150'000, down},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, LargeCuda, testing::ValuesIn(kRows),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
#endif
