#include "kernels/full_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/numerics/chain.h"
#include "kernels/numerics/device_functions.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

using numerics::Operand;

constexpr std::int64_t kHeadDim = 128;
constexpr std::int64_t kTile = 128;        // keys
constexpr std::int64_t kRowsAtOnce = 512;  // query rows that walk the keys together
constexpr std::int64_t kParts = 4;         // of a row sum
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kScale = 0.12751743f;  // f32(128^-0.5 * log2 e)
constexpr float kLn2 = 0.693147182f;
static_assert(std::bit_cast<std::uint32_t>(kScale) == 0x3e0293eeu);

// Query rows of one head and what they carry from tile to tile.
class Rows {
 public:
  explicit Rows(std::int64_t count)
      : count_(count),
        scores_(count * kTile),
        weights_(count * kTile),
        acc_(count * kHeadDim, 0.0f),
        max_(count, -kInfinity),
        sums_(count * kParts, 0.0f),
        rescale_(count) {}

  // One tile of keys: k rows x channels, v channels x keys.
  void add(const Operand& q, const Operand& k, const Operand& v) {
    numerics::chain(q, k, nullptr, scores_.data(), kTile);
    for (std::int64_t row = 0; row < count_; ++row) subtract_max(row, k.rows);
    numerics::ex2_approx(scores_.data(), scores_.data(), scores_.size());
    numerics::ex2_approx(rescale_.data(), rescale_.data(), rescale_.size());
    for (std::int64_t row = 0; row < count_; ++row) fold(row);
    numerics::chain({weights_.data(), count_, v.depth, kTile, 1}, v, acc_.data(), acc_.data(), kHeadDim);
  }

  void write(std::int64_t row, Bf16* o) const {
    const float reciprocal = numerics::rcp_approx(sum(row));
    for (std::int64_t i = 0; i < kHeadDim; ++i) o[i] = to_bf16(acc_[row * kHeadDim + i] * reciprocal);
  }

  float log_sum_exp(std::int64_t row) const {
    return std::fma(max_[row], kLn2, numerics::lg2_approx(sum(row)) * kLn2);
  }

 private:
  float sum(std::int64_t row) const {
    const float* l = &sums_[row * kParts];
    return (l[0] + l[1]) + (l[2] + l[3]);
  }

  void subtract_max(std::int64_t row, std::int64_t keys) {
    float* t = &scores_[row * kTile];
    float max = max_[row];
    for (std::int64_t i = 0; i < keys; ++i) {
      t[i] *= kScale;
      max = t[i] > max ? t[i] : max;
    }
    std::fill(t + keys, t + kTile, -kInfinity);
    for (std::int64_t i = 0; i < kTile; ++i) t[i] -= max;
    rescale_[row] = max_[row] - max;
    max_[row] = max;
  }

  void fold(std::int64_t row) {
    const float* p = &scores_[row * kTile];
    float part[kParts];
    for (std::int64_t i = 0; i < kParts; ++i) part[i] = p[2 * i] + p[2 * i + 1];
    for (std::int64_t column = 2 * kParts; column < kTile; column += 2 * kParts)
      for (std::int64_t i = 0; i < kParts; ++i)
        part[i] = (part[i] + p[column + 2 * i]) + p[column + 2 * i + 1];
    float* l = &sums_[row * kParts];
    for (std::int64_t i = 0; i < kParts; ++i) l[i] = std::fma(l[i], rescale_[row], part[i]);
    std::transform(p, p + kTile, &weights_[row * kTile], to_bf16);
    float* acc = &acc_[row * kHeadDim];
    for (std::int64_t i = 0; i < kHeadDim; ++i) acc[i] *= rescale_[row];
  }

  const std::int64_t count_;
  std::vector<float> scores_;  // s, then t - m', then p
  std::vector<Bf16> weights_;  // R(p)
  std::vector<float> acc_, max_, sums_, rescale_;
};

void require_heads(const char* what, const Tensor& tensor) {
  require(!tensor.empty() && tensor.dtype() == DType::bf16, "full_attention: {}: {}, expected bf16", what,
          name_of(tensor.dtype()));
  require(tensor.shape().size() == 3 && tensor.elements() > 0 && tensor.cols() == kHeadDim,
          "full_attention: {}: shape {}, expected rows x heads x {}", what, to_string(tensor.shape()),
          kHeadDim);
}

}  // namespace

void full_attention(const Tensor& q, const Tensor& k, const Tensor& v, Tensor& o, Tensor* lse) {
  require_heads("q", q);
  require_heads("k", k);
  require_heads("v", v);
  const std::int64_t rows = q.shape()[0], heads = q.shape()[1], keys = k.shape()[0], width = heads * kHeadDim;
  require(k.shape()[1] == heads, "full_attention: k has {} heads, q has {}", k.shape()[1], heads);
  require(v.shape() == k.shape(), "full_attention: v: shape {}, expected k's {}", to_string(v.shape()),
          to_string(k.shape()));
  require(!o.empty() && o.dtype() == DType::bf16, "full_attention: o: {}, expected bf16", name_of(o.dtype()));
  require(o.shape() == Shape({rows, width}), "full_attention: o: shape {}, expected {}x{}",
          to_string(o.shape()), rows, width);

  if (lse != nullptr)
    require(!lse->empty() && lse->dtype() == DType::fp32 && lse->shape() == Shape({heads, rows}),
            "full_attention: lse: {} {}, expected fp32 {}x{}", name_of(lse->dtype()), to_string(lse->shape()),
            heads, rows);

  const std::int64_t blocks = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  parallel_for(0, heads * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t column = i / blocks * kHeadDim, row = i % blocks * kRowsAtOnce;
      const std::int64_t count = std::min(kRowsAtOnce, rows - row);
      const Operand queries{q.data<Bf16>() + row * width + column, count, kHeadDim, width, 1};
      Rows state(count);
      for (std::int64_t key = 0; key < keys; key += kTile) {
        const std::int64_t n = std::min(kTile, keys - key), offset = key * width + column;
        state.add(queries, {k.data<Bf16>() + offset, n, kHeadDim, width, 1},
                  {v.data<Bf16>() + offset, kHeadDim, n, 1, width});
      }
      for (std::int64_t r = 0; r < count; ++r) state.write(r, o.data<Bf16>() + (row + r) * width + column);
      if (lse != nullptr)
        for (std::int64_t r = 0; r < count; ++r)
          lse->data<float>()[column / kHeadDim * rows + row + r] = state.log_sum_exp(r);
    }
  });
}

}  // namespace h3::kernels
