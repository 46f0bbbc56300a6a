#include "golden/provider/provider.h"

#include "golden/provider/attention.h"
#include "golden/provider/eager.h"

namespace h3::golden::provider {
namespace {

constexpr std::int64_t kTags = 3;

// The split of the table comes before the gather, as in the block's forward.
Tensor gather(const Gathered& from, std::int64_t cols, const Tensor& index) {
  return index_select(columns(from.table, from.part * cols, cols), index);
}

}  // namespace

Tensor Provider::adaln_projection(const Tensor& temb, const Tensor& weight, const Tensor& bias) const {
  const Tensor table = modulation_table(temb, weight, bias);
  return table.reshaped({table.rows() * kTags, table.cols() / kTags});
}

Tensor Provider::modulation_table(const Tensor& temb, const Tensor& weight, const Tensor& bias) const {
  return products_.linear(to_bf16(silu(temb)), weight, &bias);
}

Tensor Provider::modulated_rms_norm(const Tensor& x, const Tensor& weight, float eps, const Gathered& shift,
                                    const Gathered& scale, const Tensor& index) const {
  const Tensor normed = provider::rms_norm(x, weight, eps);
  const Tensor scaled = mul(normed, add(gather(scale, x.cols(), index), 1.0f));
  return add(scaled, gather(shift, x.cols(), index));
}

Tensor Provider::rms_norm(const Tensor& x, const Tensor& weight, float eps) const {
  return provider::rms_norm(x, weight, eps);
}

Tensor Provider::linear(const Tensor& x, const Tensor& weight, const Tensor* bias) const {
  return products_.linear(x, weight, bias);
}

// _apply_rotary_emb: the leading channels times cos, plus (-second half, first half) times sin; the rest
// passes through.
Tensor Provider::rope(const Tensor& x, const Tensor& cos, const Tensor& sin) const {
  require(x.shape().size() == 3, "provider rope: x is {}, expected (S,heads,D)", to_string(x.shape()));
  const std::int64_t heads = x.shape()[1], rotary = cos.cols(), half = rotary / 2;
  const Tensor leading = columns(x, 0, rotary);
  const Tensor rotated = concatenate(neg(columns(leading, half, half)), columns(leading, 0, half));
  const Tensor turned =
      add(mul(leading, repeat_rows(to_bf16(cos), heads)), mul(rotated, repeat_rows(to_bf16(sin), heads)));
  return concatenate(turned, columns(x, rotary, x.cols() - rotary));
}

Tensor Provider::attention(const Tensor& q, const Tensor& k, const Tensor& v) const {
  return provider::attention(q, k, v);
}

Tensor Provider::swiglu(const Tensor& x) const {
  const std::int64_t half = x.cols() / 2;
  return mul(columns(x, 0, half), silu(columns(x, half, half)));
}

Tensor Provider::residual(const Tensor& residual, const Tensor& x) const { return add(residual, x); }

Tensor Provider::gate_residual(const Tensor& residual, const Tensor& x, const Gathered& gate,
                               const Tensor& index) const {
  return add(residual, mul(gather(gate, x.cols(), index), x));
}

}  // namespace h3::golden::provider
