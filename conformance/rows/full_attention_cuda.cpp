// RFC row h3_full_attention on a Hopper GPU: the bytes of the CPU twin and of the provider (cuDNN), whatever
// the extents are.
#ifdef H3_HAVE_CUDA

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "conformance/operands.h"
#include "conformance/rows/attention_problem.h"
#include "conformance/rows/on_cuda.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "kernels/cuda/device.h"
#include "kernels/full_attention.h"

namespace h3 {
namespace {

// q (R,heads,128), k and v (S,heads,128) on the GPU -> o (R,heads*128) on the CPU.
Tensor on_gpu(const Tensor& q, const Tensor& k, const Tensor& v) {
  Tensor o = cuda::allocate(DType::bf16, {q.shape()[0], q.shape()[1] * kAttentionDim});  // poisoned
  kernels::cuda::full_attention(q, k, v, o);
  return cuda::download(o);
}

struct FullAttentionCuda : testing::TestWithParam<AttentionRow> {
  void SetUp() override {
    H3_NEEDS_HOPPER();
    const AttentionProblem problem = problem_of(GetParam());
    q = problem.q, k = problem.k, v = problem.v;
    q_gpu = cuda::upload(q);
    k_gpu = cuda::upload(k);
    v_gpu = cuda::upload(v);
  }
  Tensor q, k, v, q_gpu, k_gpu, v_gpu;
};

TEST_P(FullAttentionCuda, equals_its_twin) {
  Tensor o(DType::bf16, {q.shape()[0], q.shape()[1] * kAttentionDim});
  kernels::full_attention(q, k, v, o);
  EXPECT_TRUE(bitwise_equal(o, on_gpu(q_gpu, k_gpu, v_gpu)));
}

TEST_P(FullAttentionCuda, rows_do_not_see_each_other) {
  const Tensor o = on_gpu(q_gpu, k_gpu, v_gpu);
  for (std::int64_t at = 0; at < o.rows(); at += std::max<std::int64_t>(1, o.rows() / 5))
    EXPECT_TRUE(bitwise_equal(o.row_range(at, 1), on_gpu(q_gpu.row_range(at, 1), k_gpu, v_gpu))) << at;
}

TEST_P(FullAttentionCuda, repeats_bitwise_and_stays_inside_its_output) {
  const Tensor first = on_gpu(q_gpu, k_gpu, v_gpu);
  Tensor wide = cuda::allocate(DType::bf16, {first.rows() + 2, first.cols()});  // poisoned
  Tensor inner = wide.row_range(1, first.rows());
  for (int repetition = 0; repetition < 10; ++repetition) {
    kernels::cuda::full_attention(q_gpu, k_gpu, v_gpu, inner);
    const Tensor got = cuda::download(wide);
    ASSERT_TRUE(bitwise_equal(first, got.row_range(1, first.rows()))) << repetition;
    for (const std::int64_t outside : {std::int64_t(0), first.rows() + 1}) {
      const Tensor band = got.row_range(outside, 1);
      for (const Bf16 word : band.values<Bf16>())
        ASSERT_EQ(std::uint16_t(word), 0xffff) << "wrote row " << outside - 1;
    }
  }
}

constexpr AttentionRow kRows[] = {
    {128, 128, 2},   {264, 264, 2}, {1, 1, 1},
    {7, 400, 3},     {520, 3, 1},   {65, 129, 2, 6},  // logits in thousands
    {192, 257, 1},                                    // the last rows fill one warpgroup
    {130, 300, 150},                                  // more work than multiprocessors, the last rows few
    {64, 128, 1},    {63, 127, 1},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, FullAttentionCuda, testing::ValuesIn(kRows),
                         [](const auto& info) { return name_of(info.param); });

// ---- the provider's answers: all heads at once, held against those recorded

struct FullAttentionCudaProvider : testing::TestWithParam<const char*> {
  void SetUp() override {
    H3_NEEDS_HOPPER();
    if (!exists(fixture_path("products.h5"))) GTEST_SKIP() << "fixture_absent: products.h5";
  }
};

Tensor drawn(const std::string& name, const Shape& shape, int log2_std) {
  return cuda::upload(normal_operand(name, shape, log2_std));
}

TEST_P(FullAttentionCudaProvider, gives_the_same_bytes) {
  const std::string name = GetParam(), group = "attention/" + name;
  const Hdf5Reader file(fixture_path("products.h5"));
  const std::int64_t queries = file.int_attribute(group, "queries"), keys = file.int_attribute(group, "keys"),
                     heads = file.int_attribute(group, "heads");
  const int log2_std = int(file.int_attribute(group, "log2_std"));
  const Tensor recorded = file.read(group + "/o"), kept = file.read(group + "/kept_heads");
  const Tensor o = on_gpu(drawn(name + ".q", {queries, heads, kAttentionDim}, log2_std),
                          drawn(name + ".k", {keys, heads, kAttentionDim}, log2_std),
                          drawn(name + ".v", {keys, heads, kAttentionDim}, 0));
  for (std::int64_t i = 0; i < kept.elements(); ++i) {
    const std::int64_t head = kept.data<std::int64_t>()[i];
    Tensor got(DType::bf16, {queries, kAttentionDim});
    for (std::int64_t row = 0; row < queries; ++row)
      std::copy_n(o.data<Bf16>() + (row * heads + head) * kAttentionDim, kAttentionDim,
                  got.data<Bf16>() + row * kAttentionDim);
    EXPECT_TRUE(bitwise_equal(recorded.row_range(i, 1).reshaped({queries, kAttentionDim}), got))
        << "head " << head;
  }
}

INSTANTIATE_TEST_SUITE_P(rows_cuda, FullAttentionCudaProvider,
                         testing::Values("keys_128", "keys_264", "keys_400", "keys_925", "queries_8_of_400",
                                         "logits_in_thousands"),
                         [](const auto& info) { return std::string(info.param); });

// ---- a NaN

struct AttentionCudaClaim {
  const char* name;
  void (*check)();
};
void PrintTo(const AttentionCudaClaim& claim, std::ostream* out) { *out << claim.name; }

struct AttentionCuda : testing::TestWithParam<AttentionCudaClaim> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};
TEST_P(AttentionCuda, keeps_its_promise) { GetParam().check(); }

void a_nan_spoils_its_row_and_no_other() {
  Tensor q = normal_operand("nan.q", {140, 1, kAttentionDim});
  const Tensor k = cuda::upload(normal_operand("nan.k", {300, 1, kAttentionDim})),
               v = cuda::upload(normal_operand("nan.v", {300, 1, kAttentionDim}));
  const Tensor before = on_gpu(cuda::upload(q), k, v);
  q.data<Bf16>()[2 * kAttentionDim + 5] = Bf16(0x7fc0);
  const Tensor after = on_gpu(cuda::upload(q), k, v);
  for (std::int64_t i = 0; i < after.elements(); ++i)
    if (i / kAttentionDim == 2)
      ASSERT_TRUE(std::isnan(after.at(i)));
    else
      ASSERT_EQ(before.data<Bf16>()[i], after.data<Bf16>()[i]);
}

void another_order_of_the_keys_is_seen() {  // or the rows above could not prove the canonical one
  const Tensor q = cuda::upload(normal_operand("order.q", {64, 2, kAttentionDim})),
               k = normal_operand("order.k", {400, 2, kAttentionDim}),
               v = normal_operand("order.v", {400, 2, kAttentionDim});
  const auto reversed = [](const Tensor& from) {
    Tensor to(DType::bf16, from.shape());
    const std::int64_t width = from.shape()[1] * kAttentionDim;
    for (std::int64_t i = 0; i < from.shape()[0]; ++i)
      std::copy_n(from.data<Bf16>() + i * width, width, to.data<Bf16>() + (from.shape()[0] - 1 - i) * width);
    return to;
  };
  EXPECT_FALSE(bitwise_equal(on_gpu(q, cuda::upload(k), cuda::upload(v)),
                             on_gpu(q, cuda::upload(reversed(k)), cuda::upload(reversed(v)))));
}

constexpr AttentionCudaClaim kClaims[] = {
    {"a_nan_spoils_its_row_and_no_other", a_nan_spoils_its_row_and_no_other},
    {"another_order_of_the_keys_is_seen", another_order_of_the_keys_is_seen},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, AttentionCuda, testing::ValuesIn(kClaims),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- bad input: refused on the host, so no GPU is needed, and no byte of these tensors is touched

Tensor fake(DType dtype, const Shape& shape, Device device = Device::cuda) {
  static std::byte nothing;
  return Tensor(dtype, shape, std::shared_ptr<std::byte>(&nothing, [](std::byte*) {}), device);
}
Tensor bf16(const Shape& shape) { return fake(DType::bf16, shape); }

struct BadInput {
  const char* name;
  std::function<void()> call;
  const char* message;
};
void PrintTo(const BadInput& row, std::ostream* out) { *out << row.name; }

void attend(const Tensor& q, const Tensor& k, const Tensor& v, Tensor o) {
  kernels::cuda::full_attention(q, k, v, o);
}

struct AttentionCudaErrors : testing::TestWithParam<BadInput> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(AttentionCudaErrors, are_one_line) { EXPECT_EQ(error_of(GetParam().call), GetParam().message); }

const BadInput kBadInputs[] = {
    {"q_on_the_cpu",
     [] {
       attend(fake(DType::bf16, {4, 2, 128}, Device::cpu), bf16({3, 2, 128}), bf16({3, 2, 128}),
              bf16({4, 256}));
     },
     "full_attention: q lies on the CPU, expected the GPU"},
    {"a_result_on_the_cpu",
     [] {
       attend(bf16({4, 2, 128}), bf16({3, 2, 128}), bf16({3, 2, 128}),
              fake(DType::bf16, {4, 256}, Device::cpu));
     },
     "full_attention: o lies on the CPU, expected the GPU"},
    {"q_of_another_type",
     [] {
       attend(fake(DType::fp32, {4, 2, 128}), bf16({3, 2, 128}), bf16({3, 2, 128}), bf16({4, 256}));
     },
     "full_attention: q: fp32, expected bf16"},
    {"another_head_dimension",
     [] {
       attend(bf16({4, 2, 64}), bf16({3, 2, 64}), bf16({3, 2, 64}), bf16({4, 128}));
     },
     "full_attention: q: shape 4x2x64, expected rows x heads x 128"},
    {"no_keys",
     [] {
       attend(bf16({4, 2, 128}), bf16({0, 2, 128}), bf16({0, 2, 128}), bf16({4, 256}));
     },
     "full_attention: k: shape 0x2x128, expected rows x heads x 128"},
    {"heads_that_differ",
     [] {
       attend(bf16({4, 2, 128}), bf16({3, 1, 128}), bf16({3, 1, 128}), bf16({4, 256}));
     },
     "full_attention: k has 1 heads, q has 2"},
    {"values_that_do_not_pair_with_keys",
     [] {
       attend(bf16({4, 2, 128}), bf16({3, 2, 128}), bf16({5, 2, 128}), bf16({4, 256}));
     },
     "full_attention: v: shape 5x2x128, expected k's 3x2x128"},
    {"a_result_that_does_not_fit",
     [] {
       attend(bf16({4, 2, 128}), bf16({3, 2, 128}), bf16({3, 2, 128}), bf16({4, 128}));
     },
     "full_attention: o: shape 4x128, expected 4x256"},
    {"too_many_rows",
     [] {
       constexpr std::int64_t kMany = std::int64_t(1) << 31;
       attend(bf16({kMany, 1, 128}), bf16({3, 1, 128}), bf16({3, 1, 128}), bf16({kMany, 128}));
     },
     "full_attention: q: shape 2147483648x1x128, expected less than 2^31 - 128 rows and heads"},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, AttentionCudaErrors, testing::ValuesIn(kBadInputs),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3

#endif  // H3_HAVE_CUDA
