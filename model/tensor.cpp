#include "model/tensor.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

namespace h3 {

std::string to_string(const Shape& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

Tensor::Tensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  for (const auto extent : shape_)
    require(extent >= 0, "tensor shape {}: negative extent", to_string(shape_));
  const std::size_t bytes = (size_bytes() + 63) / 64 * 64;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(64, bytes ? bytes : 64));
  if (!memory) fail("out of memory: {} bytes for a {} tensor {}", bytes, name_of(dtype), to_string(shape_));
  storage_ = {memory, [](std::byte* p) { std::free(p); }};
  std::memset(memory, 0xff, bytes ? bytes : 64);
}

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<std::byte> first_byte, Device device)
    : dtype_(dtype), device_(device), shape_(std::move(shape)), storage_(std::move(first_byte)) {}

std::int64_t Tensor::elements() const {
  return std::accumulate(shape_.begin(), shape_.end(), std::int64_t(1), std::multiplies<>());
}

float Tensor::at(std::int64_t index) const {
  check_on_cpu();
  switch (dtype_) {
    case DType::bf16:
      return to_float(data<Bf16>()[index]);
    case DType::fp16:
      return to_float(data<Fp16>()[index]);
    case DType::fp32:
      return data<float>()[index];
    case DType::fp64:
      return float(data<double>()[index]);
    case DType::i64:
      break;
  }
  fail("tensor of {}: not a float type", name_of(dtype_));
}

Tensor Tensor::reshaped(Shape shape) const {
  Tensor view(dtype_, std::move(shape), storage_, device_);
  require(view.elements() == elements(), "cannot view {} as {}", to_string(shape_), to_string(view.shape_));
  return view;
}

Tensor Tensor::row_range(std::int64_t first, std::int64_t count) const {
  require(!shape_.empty() && first >= 0 && count >= 0 && first + count <= shape_[0],
          "rows [{}, {}) of a tensor {}", first, first + count, to_string(shape_));
  Shape shape = shape_;
  shape[0] = count;
  const std::size_t stride = shape_[0] ? size_bytes() / std::size_t(shape_[0]) : 0;
  return {dtype_, std::move(shape),
          std::shared_ptr<std::byte>(storage_, storage_.get() + std::size_t(first) * stride), device_};
}

Tensor Tensor::clone() const {
  check_on_cpu();
  Tensor copy(dtype_, shape_);
  std::memcpy(copy.bytes(), bytes(), size_bytes());
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  check_on_cpu();
  if (dtype == dtype_) return clone();
  Tensor copy(dtype, shape_);
  const std::int64_t count = elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const double wide = dtype_ == DType::fp64 ? data<double>()[i] : double(at(i));
    switch (dtype) {
      case DType::bf16:
        copy.data<Bf16>()[i] = to_bf16(float(wide));
        break;
      case DType::fp16:
        copy.data<Fp16>()[i] = to_fp16(float(wide));
        break;
      case DType::fp32:
        copy.data<float>()[i] = float(wide);
        break;
      case DType::fp64:
        copy.data<double>()[i] = wide;
        break;
      case DType::i64:
        fail("cannot convert {} to i64", name_of(dtype_));
    }
  }
  return copy;
}

}  // namespace h3
