// RFC rows h3_qkv_gemm, h3_attention_o_gemm, h3_ffn_gate_up_gemm, h3_ffn_down_gemm and the projections with a
// bias on a Hopper GPU, forward, dX and dW: the bytes of the CPU twin, whatever tile computes them, and the
// provider's bytes at real sizes.
#ifdef H3_HAVE_CUDA

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "conformance/operands.h"
#include "conformance/rows/on_cuda.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "kernels/cuda/device.h"
#include "kernels/linear.h"

namespace h3 {
namespace {

constexpr int kWeightLog2 = -6;

using kernels::cuda::Product;

struct ProductRow {
  const char* row;
  std::int64_t rows, inputs, outputs;
  bool bias = false;
  Product product = Product::forward;
};
std::string name_of(const ProductRow& row) {
  const char* form[] = {"", "_dx", "_dw"};
  return fmt::format("{}_{}x{}x{}{}{}", row.row, row.rows, row.inputs, row.outputs, row.bias ? "_bias" : "",
                     form[int(row.product)]);
}
void PrintTo(const ProductRow& row, std::ostream* out) { *out << name_of(row); }

// The operands of a product as its call takes them: x and weight, dy and weight, dy and x.
struct LinearCuda : testing::TestWithParam<ProductRow> {
  void SetUp() override {
    H3_NEEDS_HOPPER();
    const ProductRow& row = GetParam();
    const Tensor x = normal_operand("linear.x", {row.rows, row.inputs}),
                 weight = normal_operand("linear.weight", {row.outputs, row.inputs}, kWeightLog2),
                 dy = normal_operand("linear.dy", {row.rows, row.outputs});
    left = row.product == Product::forward ? x : dy;
    right = row.product == Product::weight_gradient ? x : weight;
    if (row.bias) bias = normal_operand("linear.bias", {row.outputs});
    left_gpu = cuda::upload(left);
    right_gpu = cuda::upload(right);
    if (row.bias) bias_gpu = cuda::upload(bias);
  }

  const Tensor* bias_gpu_or_null() const { return GetParam().bias ? &bias_gpu : nullptr; }

  Shape result_shape(const Tensor& l) const {
    const ProductRow& row = GetParam();
    if (row.product == Product::weight_gradient) return {row.outputs, row.inputs};
    return {l.rows(), row.product == Product::forward ? row.outputs : row.inputs};
  }
  Tensor twin(DType dtype) const {
    Tensor y(dtype, result_shape(left));
    switch (GetParam().product) {
      case Product::forward:
        kernels::linear(left, right, GetParam().bias ? &bias : nullptr, y);
        break;
      case Product::input_gradient:
        kernels::linear_input_gradient(left, right, y);
        break;
      case Product::weight_gradient:
        kernels::linear_weight_gradient(left, right, y);
        break;
    }
    return y;
  }
  void compute(const Tensor& l, Tensor& y) const {
    switch (GetParam().product) {
      case Product::forward:
        kernels::cuda::linear(l, right_gpu, bias_gpu_or_null(), y);
        break;
      case Product::input_gradient:
        kernels::cuda::linear_input_gradient(l, right_gpu, y);
        break;
      case Product::weight_gradient:
        kernels::cuda::linear_weight_gradient(l, right_gpu, y);
        break;
    }
  }
  Tensor on_gpu(const Tensor& l, DType dtype) const {
    Tensor y = cuda::allocate(dtype, result_shape(l));
    compute(l, y);
    return cuda::download(y);
  }
  static constexpr int kAsChosen = -1;  // what the call takes by itself, before the tiles
  int tiles() const { return kernels::cuda::tile_count(GetParam().product); }
  void with_tile(int tile, Tensor& y) const {
    if (tile == kAsChosen) return compute(left_gpu, y);
    kernels::cuda::product_with_tile(GetParam().product, tile, left_gpu, right_gpu, bias_gpu_or_null(), y);
  }

  Tensor left, right, bias, left_gpu, right_gpu, bias_gpu;
};

TEST_P(LinearCuda, equals_its_twin) {
  EXPECT_TRUE(bitwise_equal(twin(DType::bf16), on_gpu(left_gpu, DType::bf16)));
  EXPECT_TRUE(bitwise_equal(twin(DType::fp32), on_gpu(left_gpu, DType::fp32)));
}

TEST_P(LinearCuda, every_tile_gives_the_same_bytes) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const Tensor expected = on_gpu(left_gpu, dtype);
    for (int tile = 0; tile < tiles(); ++tile) {
      Tensor y = cuda::allocate(dtype, expected.shape());
      with_tile(tile, y);
      EXPECT_TRUE(bitwise_equal(expected, cuda::download(y))) << "tile " << tile;
    }
  }
}

TEST_P(LinearCuda, repeats_bitwise_and_stays_inside_its_output) {
  const Tensor first = on_gpu(left_gpu, DType::bf16);
  for (int tile = kAsChosen; tile < tiles(); ++tile) {
    Tensor wide = cuda::allocate(DType::bf16, {first.rows() + 2, first.cols()});  // poisoned
    Tensor inner = wide.row_range(1, first.rows());
    with_tile(tile, inner);
    const Tensor got = cuda::download(wide);
    EXPECT_TRUE(bitwise_equal(first, got.row_range(1, first.rows()))) << "tile " << tile;
    for (const std::int64_t outside : {std::int64_t(0), first.rows() + 1}) {
      const Tensor band = got.row_range(outside, 1);
      for (const Bf16 word : band.values<Bf16>())
        ASSERT_EQ(std::uint16_t(word), 0xffff) << "tile " << tile << " wrote row " << outside - 1;
    }
  }
}

constexpr ProductRow kProducts[] = {
    {"h3_qkv_gemm", 264, 528, 1032},   // the last tile of outputs holds 8
    {"h3_qkv_gemm", 1, 168, 56},       // less than a tile in every direction
    {"h3_attention_o_gemm", 5, 8, 8},  // the smallest product there is
    {"h3_attention_o_gemm", 925, 264, 520},
    {"h3_ffn_gate_up_gemm", 33, 1336, 136},
    {"h3_ffn_down_gemm", 2049, 48, 24},  // more rows than share a pass over the weights
    {"adaln_projection_3mod", 3, 168, 576, true},
    {"final_adaln_out", 66, 320, 104, true},
    {"h3_qkv_gemm", 264, 528, 1032, false, Product::input_gradient},
    {"h3_qkv_gemm", 1, 168, 56, false, Product::input_gradient},
    {"h3_attention_o_gemm", 5, 8, 8, false, Product::input_gradient},
    {"h3_attention_o_gemm", 925, 264, 520, false, Product::input_gradient},
    {"h3_ffn_down_gemm", 2049, 24, 48, false, Product::input_gradient},
    {"adaln_projection_3mod", 3, 168, 1336, false, Product::input_gradient},
    {"adaln_projection_3mod", 8, 2688, 4136, false, Product::input_gradient},  // goes round the ring of slots
    {"h3_qkv_gemm", 264, 528, 1032, false, Product::weight_gradient},
    {"h3_qkv_gemm", 1, 168, 56, false, Product::weight_gradient},
    {"h3_attention_o_gemm", 5, 8, 8, false, Product::weight_gradient},
    {"h3_attention_o_gemm", 925, 264, 520, false, Product::weight_gradient},
    {"h3_ffn_down_gemm", 2049, 24, 48, false, Product::weight_gradient},
    {"h3_ffn_gate_up_gemm", 130, 40, 2312, false, Product::weight_gradient},
    {"adaln_projection_3mod", 3, 264, 520, false, Product::weight_gradient},
    {"adaln_projection_3mod", 16, 2696, 2120, false,
     Product::weight_gradient},  // more columns than one block's
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, LinearCuda, testing::ValuesIn(kProducts),
                         [](const auto& info) { return name_of(info.param); });

// ---- rows of y and of dX

struct LinearCudaRows : LinearCuda {};

TEST_P(LinearCudaRows, do_not_see_each_other) {
  const Tensor y = on_gpu(left_gpu, DType::bf16);
  for (std::int64_t at = 0; at < y.rows(); at += std::max<std::int64_t>(1, y.rows() / 5))
    EXPECT_TRUE(bitwise_equal(y.row_range(at, 1), on_gpu(left_gpu.row_range(at, 1), DType::bf16))) << at;
}

std::vector<ProductRow> products_by_row() {
  std::vector<ProductRow> rows;
  for (const ProductRow& row : kProducts)
    if (row.product != Product::weight_gradient) rows.push_back(row);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(rows_cuda, LinearCudaRows, testing::ValuesIn(products_by_row()),
                         [](const auto& info) { return name_of(info.param); });

// ---- q, k and v in one launch

struct LinearCudaTogether : LinearCuda {};

TEST_P(LinearCudaTogether, equals_one_by_one) {
  std::vector<Tensor> weights, ys, expected;
  for (const char* name : {"q", "k", "v"}) {
    weights.push_back(cuda::upload(normal_operand(name, right.shape(), kWeightLog2)));
    ys.push_back(cuda::allocate(DType::bf16, result_shape(left)));
    Tensor y = cuda::allocate(DType::bf16, result_shape(left));
    kernels::cuda::linear(left_gpu, weights.back(), nullptr, y);
    expected.push_back(cuda::download(y));
  }
  kernels::cuda::linear(left_gpu, weights, ys);
  for (std::size_t i = 0; i < ys.size(); ++i)
    EXPECT_TRUE(bitwise_equal(expected[i], cuda::download(ys[i]))) << i;
}

constexpr ProductRow kTogether[] = {
    {"h3_qkv_gemm", 264, 528, 1032},
    {"h3_qkv_gemm", 1, 168, 56},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, LinearCudaTogether, testing::ValuesIn(kTogether),
                         [](const auto& info) { return name_of(info.param); });

// ---- bad input: refused on the host, no byte of these tensors is touched

Tensor fake(DType dtype, const Shape& shape, Device device = Device::cuda) {
  static std::byte nothing;
  return Tensor(dtype, shape, std::shared_ptr<std::byte>(&nothing, [](std::byte*) {}), device);
}
Tensor bf16(const Shape& shape) { return fake(DType::bf16, shape); }

struct BadCall {
  const char* name;
  std::function<void()> call;
  const char* message;
};
void PrintTo(const BadCall& row, std::ostream* out) { *out << row.name; }

void forward(const Tensor& x, const Tensor& weight, const Tensor* bias, Tensor y) {
  kernels::cuda::linear(x, weight, bias, y);
}

struct LinearCudaErrors : testing::TestWithParam<BadCall> {
  void SetUp() override { H3_NEEDS_HOPPER(); }
};

TEST_P(LinearCudaErrors, are_one_line) { EXPECT_EQ(error_of(GetParam().call), GetParam().message); }

const BadCall kBadCalls[] = {
    {"x_on_the_cpu",
     [] {
       forward(fake(DType::bf16, {2, 8}, Device::cpu), bf16({8, 8}), nullptr, bf16({2, 8}));
     },
     "linear: x lies on the CPU, expected the GPU"},
    {"y_on_the_cpu",
     [] {
       forward(bf16({2, 8}), bf16({8, 8}), nullptr, fake(DType::bf16, {2, 8}, Device::cpu));
     },
     "linear: y lies on the CPU, expected the GPU"},
    {"x_of_another_type",
     [] {
       forward(fake(DType::fp32, {2, 8}), bf16({8, 8}), nullptr, bf16({2, 8}));
     },
     "linear: x: fp32, expected bf16"},
    {"nothing_at_all",
     [] {
       forward({}, bf16({8, 8}), nullptr, bf16({2, 8}));
     },
     "linear: x: shape scalar, expected a non-empty matrix"},
    {"no_rows",
     [] {
       forward(bf16({0, 8}), bf16({8, 8}), nullptr, bf16({0, 8}));
     },
     "linear: x: shape 0x8, expected a non-empty matrix"},
    {"inputs_that_differ",
     [] {
       forward(bf16({2, 8}), bf16({8, 16}), nullptr, bf16({2, 8}));
     },
     "linear: x of 2x8 and weight of 8x16 have no common extent"},
    {"a_result_that_does_not_fit",
     [] {
       forward(bf16({2, 8}), bf16({8, 8}), nullptr, bf16({2, 16}));
     },
     "linear: y: shape 2x16, expected 2 rows of 8"},
    {"outputs_not_in_eights",
     [] {
       forward(bf16({2, 8}), bf16({12, 8}), nullptr, bf16({2, 12}));
     },
     "linear: 12 outputs and 8 columns of x, expected multiples of 8"},
    {"inputs_not_in_eights",
     [] {
       forward(bf16({2, 9}), bf16({8, 9}), nullptr, bf16({2, 8}));
     },
     "linear: 8 outputs and 9 columns of x, expected multiples of 8"},
    {"a_bias_that_is_too_short",
     [] {
       const Tensor bias = bf16({4});
       forward(bf16({2, 8}), bf16({8, 8}), &bias, bf16({2, 8}));
     },
     "linear: bias: shape 4, expected 8"},
    {"weights_of_two_shapes",
     [] {
       const std::array weights{bf16({8, 8}), bf16({16, 8})};
       std::array ys{bf16({2, 8}), bf16({2, 16})};
       kernels::cuda::linear(bf16({2, 8}), weights, ys);
     },
     "linear: weights with 8 and 16 outputs, expected one shape"},
    {"dy_that_does_not_fit_the_weight",
     [] {
       Tensor dx = bf16({2, 16});
       kernels::cuda::linear_input_gradient(bf16({2, 8}), bf16({16, 16}), dx);
     },
     "linear_input_gradient: dy of 2x8 and weight of 16x16 have no common extent"},
    {"gradients_of_other_rows",
     [] {
       Tensor dweight = bf16({8, 16});
       kernels::cuda::linear_weight_gradient(bf16({2, 8}), bf16({3, 16}), dweight);
     },
     "linear_weight_gradient: dy of 2x8 and x of 3x16 have no common extent"},
    {"a_weight_gradient_turned_over",
     [] {
       Tensor dweight = bf16({16, 8});
       kernels::cuda::linear_weight_gradient(bf16({2, 8}), bf16({2, 16}), dweight);
     },
     "linear_weight_gradient: dweight: shape 16x8, expected 8 rows of 16"},
    {"four_weights",
     [] {
       const std::vector weights(4, bf16({8, 8}));
       std::vector ys(4, bf16({2, 8}));
       kernels::cuda::linear(bf16({2, 8}), weights, ys);
     },
     "linear: 4 weights for 4 results, expected as many, at most 3"},
};
INSTANTIATE_TEST_SUITE_P(rows_cuda, LinearCudaErrors, testing::ValuesIn(kBadCalls),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- the provider's answers: the whole product at its real size, held against the rows and columns recorded

struct LinearCudaProvider : testing::TestWithParam<std::string> {
  void SetUp() override {
    H3_NEEDS_HOPPER();
    if (!exists(fixture_path("products.h5"))) GTEST_SKIP() << "fixture_absent: products.h5";
  }
};

Tensor drawn(const std::string& name, const Shape& shape, int log2_std) {
  return cuda::upload(normal_operand(name, shape, log2_std));
}

TEST_P(LinearCudaProvider, gives_the_same_bytes) {
  const std::string& name = GetParam();
  const std::string group = "projections/" + name;
  const Hdf5Reader file(fixture_path("products.h5"));
  const std::int64_t rows = file.int_attribute(group, "rows"), inputs = file.int_attribute(group, "inputs"),
                     outputs = file.int_attribute(group, "outputs");
  const std::string form = file.string_attribute(group, "form");
  const auto x = [&] { return drawn(name + ".x", {rows, inputs}, 0); };
  const auto weight = [&] { return drawn(name + ".weight", {outputs, inputs}, kWeightLog2); };
  const auto dy = [&] { return drawn(name + ".dy", {rows, outputs}, 0); };
  Tensor bias;
  if (file.int_attribute(group, "bias") != 0) bias = drawn(name + ".bias", {outputs}, 0);

  const Tensor at_rows = file.read(group + "/rows"), at_columns = file.read(group + "/columns");
  const auto recorded = [&](const Tensor& y) {
    const Tensor whole = cuda::download(y);
    const std::size_t size = size_of(whole.dtype());
    Tensor picked(whole.dtype(), {at_rows.elements(), at_columns.elements()});
    std::byte* to = picked.bytes();
    for (const std::int64_t row : at_rows.values<std::int64_t>())
      for (const std::int64_t column : at_columns.values<std::int64_t>()) {
        const std::byte* from = whole.bytes() + std::size_t(row * whole.cols() + column) * size;
        to = std::copy(from, from + size, to);
      }
    return picked;
  };
  const Shape shape = form == "dw" ? Shape{outputs, inputs} : Shape{rows, form == "dx" ? inputs : outputs};
  Tensor sum = cuda::allocate(DType::fp32, shape), y = cuda::allocate(DType::bf16, shape);
  if (form == "forward") {
    kernels::cuda::linear(x(), weight(), nullptr, sum);
    kernels::cuda::linear(x(), weight(), bias.empty() ? nullptr : &bias, y);
  } else {
    const Tensor left = dy(), right = form == "dx" ? weight() : x();
    const auto gradient =
        form == "dx" ? kernels::cuda::linear_input_gradient : kernels::cuda::linear_weight_gradient;
    gradient(left, right, sum, nullptr);
    gradient(left, right, y, nullptr);
  }
  EXPECT_TRUE(bitwise_equal(file.read(group + "/y_fp32"), recorded(sum)));
  EXPECT_TRUE(bitwise_equal(file.read(group + "/y_bf16"), recorded(y)));
}

std::vector<std::string> provider_cases() {
  std::vector<std::string> names;
  for (const char* form : {"forward", "dx", "dw"})
    for (const char* name : {"q", "o", "gate_up", "down"})
      for (const int rows : {264, 925, 3160})
        if (fmt::format("{}_{}_{}", name, form, rows) != "gate_up_dx_264")  // cuBLAS splits the sum there
          names.push_back(fmt::format("{}_{}_{}", name, form, rows));
  for (const int rows : {1, 2, 3, 4, 64}) names.push_back(fmt::format("adaln_forward_{}", rows));
  names.push_back("context_forward_104");
  return names;
}
INSTANTIATE_TEST_SUITE_P(rows_cuda, LinearCudaProvider, testing::ValuesIn(provider_cases()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace h3

#endif  // H3_HAVE_CUDA
