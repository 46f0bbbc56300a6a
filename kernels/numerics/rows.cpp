#include "kernels/numerics/rows.h"

#include <algorithm>

namespace h3::numerics {

void widen(const Tensor& tensor, std::int64_t first, std::int64_t count, float* out) {
  switch (tensor.dtype()) {
    case DType::bf16: {
      const Bf16* in = tensor.data<Bf16>() + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] = to_float(in[i]);
      return;
    }
    case DType::fp16: {
      const Fp16* in = tensor.data<Fp16>() + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] = to_float(in[i]);
      return;
    }
    default:
      std::copy_n(tensor.data<float>() + first, count, out);
  }
}

void narrow(const float* in, std::int64_t first, std::int64_t count, Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::bf16: {
      Bf16* out = tensor.data<Bf16>() + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] = to_bf16(in[i]);
      return;
    }
    case DType::fp16: {
      Fp16* out = tensor.data<Fp16>() + first;
      for (std::int64_t i = 0; i < count; ++i) out[i] = to_fp16(in[i]);
      return;
    }
    default:
      std::copy_n(in, count, tensor.data<float>() + first);
  }
}

void round_to(DType dtype, float* values, std::int64_t count) {
  switch (dtype) {
    case DType::bf16:
      for (std::int64_t i = 0; i < count; ++i) values[i] = round_bf16(values[i]);
      return;
    case DType::fp16:
      for (std::int64_t i = 0; i < count; ++i) values[i] = to_float(to_fp16(values[i]));
      return;
    case DType::fp32:
      return;
    default:
      fail("cannot round to {}", name_of(dtype));
  }
}

}  // namespace h3::numerics
