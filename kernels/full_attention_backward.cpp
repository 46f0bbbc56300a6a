#include "kernels/full_attention_backward.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/numerics/chain.h"
#include "kernels/numerics/device_functions.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

using numerics::Operand;

constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kParts = 16;  // of delta
constexpr std::int64_t kRowsAtOnce =
    512;                                // query rows whose P and dS are held; a multiple of the chain's step
constexpr float kScale = 0.088388346f;  // f32(128^-0.5)
constexpr float kLog2e = 1.44269502f;
static_assert(std::bit_cast<std::uint32_t>(kScale) == 0x3db504f3u);
static_assert(std::bit_cast<std::uint32_t>(kLog2e) == 0x3fb8aa3bu);

float delta_of(const Bf16* dout, const Bf16* o) {
  float part[kParts];
  for (std::int64_t i = 0; i < kParts; ++i) {
    const auto term = [&](std::int64_t j) {  // exact
      return to_float(dout[i * 8 + j]) * to_float(o[i * 8 + j]);
    };
    part[i] = term(0) + term(1);
    for (std::int64_t j = 2; j < 8; j += 2) part[i] += term(j) + term(j + 1);
  }
  for (std::int64_t half = kParts / 2; half > 0; half /= 2)
    for (std::int64_t i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}

// One head as a matrix of rows x channels inside a tensor of rows x heads x channels.
struct Head {
  const Bf16* data;
  std::int64_t width;

  Operand rows(std::int64_t first, std::int64_t count) const {
    return {data + first * width, count, kHeadDim, width, 1};
  }
  Operand channels(std::int64_t first, std::int64_t count) const {  // depth over the rows
    return {data + first * width, kHeadDim, count, 1, width};
  }
};

void store(const std::vector<float>& sums, std::int64_t rows, Bf16* to, std::int64_t width) {
  for (std::int64_t row = 0; row < rows; ++row)
    std::transform(&sums[row * kHeadDim], &sums[(row + 1) * kHeadDim], to + row * width, to_bf16);
}

void head_backward(const Head& q, const Head& k, const Head& v, const Head& o, const Head& dout,
                   const float* lse, std::int64_t rows, std::int64_t keys, Bf16* dq, Bf16* dk, Bf16* dv) {
  const std::int64_t width = q.width, held = std::min(kRowsAtOnce, rows);
  std::vector<float> weights(held * keys), gradients(held * keys), dk_sums(keys * kHeadDim, 0.0f),
      dv_sums(keys * kHeadDim, 0.0f), dq_sums(held * kHeadDim);
  std::vector<Bf16> rounded(held * keys);

  for (std::int64_t first = 0; first < rows; first += kRowsAtOnce) {
    const std::int64_t count = std::min(kRowsAtOnce, rows - first), elements = count * keys;
    // Rows of P and dS lie one behind the other; their columns are read with the depth over the query rows.
    const Operand by_row{rounded.data(), count, keys, keys, 1},
        by_column{rounded.data(), keys, count, 1, keys};

    numerics::chain(q.rows(first, count), k.rows(0, keys), nullptr, weights.data(), keys);
    for (std::int64_t row = 0; row < count; ++row)
      for (float& s : std::span(&weights[row * keys], keys))
        s = std::fma(s, kScale, -lse[first + row]) * kLog2e;
    numerics::ex2_approx(weights.data(), weights.data(), elements);
    std::transform(weights.begin(), weights.begin() + elements, rounded.begin(), to_bf16);
    numerics::chain(by_column, dout.channels(first, count), dv_sums.data(), dv_sums.data(), kHeadDim);

    numerics::chain(dout.rows(first, count), v.rows(0, keys), nullptr, gradients.data(), keys);
    for (std::int64_t row = 0; row < count; ++row) {
      const float delta = delta_of(dout.data + (first + row) * width, o.data + (first + row) * width);
      for (std::int64_t i = row * keys; i < (row + 1) * keys; ++i)
        rounded[i] = to_bf16((weights[i] * (gradients[i] - delta)) * kScale);
    }
    numerics::chain(by_column, q.channels(first, count), dk_sums.data(), dk_sums.data(), kHeadDim);
    numerics::chain(by_row, k.channels(0, keys), nullptr, dq_sums.data(), kHeadDim);
    store(dq_sums, count, dq + first * width, width);
  }
  store(dk_sums, keys, dk, width);
  store(dv_sums, keys, dv, width);
}

void require_bf16(const char* what, const Tensor& tensor, const Shape& shape) {
  require(!tensor.empty() && tensor.dtype() == DType::bf16, "full_attention_backward: {}: {}, expected bf16",
          what, name_of(tensor.dtype()));
  require(tensor.shape() == shape, "full_attention_backward: {}: shape {}, expected {}", what,
          to_string(tensor.shape()), to_string(shape));
}

}  // namespace

void full_attention_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                             const Tensor& lse, const Tensor& dout, Tensor& dq, Tensor& dk, Tensor& dv) {
  for (const auto& [what, tensor] : {std::pair{"q", &q}, {"k", &k}})
    require(!tensor->empty() && tensor->shape().size() == 3 && tensor->elements() > 0 &&
                tensor->cols() == kHeadDim,
            "full_attention_backward: {}: shape {}, expected rows x heads x {}", what,
            to_string(tensor->shape()), kHeadDim);
  const std::int64_t rows = q.shape()[0], keys = k.shape()[0], heads = q.shape()[1], width = heads * kHeadDim;
  require_bf16("q", q, {rows, heads, kHeadDim});
  require_bf16("k", k, {keys, heads, kHeadDim});
  require_bf16("v", v, k.shape());
  require_bf16("o", o, {rows, width});
  require_bf16("dout", dout, {rows, width});
  require(!lse.empty() && lse.dtype() == DType::fp32 && lse.shape() == Shape({heads, rows}),
          "full_attention_backward: lse: {} {}, expected fp32 {}x{}", name_of(lse.dtype()),
          to_string(lse.shape()), heads, rows);
  require_bf16("dq", dq, q.shape());
  require_bf16("dk", dk, k.shape());
  require_bf16("dv", dv, k.shape());

  parallel_for(0, heads, 1, [&](std::int64_t head, std::int64_t last) {
    for (; head < last; ++head) {
      const std::int64_t at = head * kHeadDim;
      const auto part = [&](const Tensor& tensor) { return Head{tensor.data<Bf16>() + at, width}; };
      head_backward(part(q), part(k), part(v), part(o), part(dout), lse.data<float>() + head * rows, rows,
                    keys, dq.data<Bf16>() + at, dk.data<Bf16>() + at, dv.data<Bf16>() + at);
    }
  });
}

}  // namespace h3::kernels
