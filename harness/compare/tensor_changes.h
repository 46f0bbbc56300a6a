// The few ways in which controls spoil a tensor. Each returns a copy.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>

#include "model/tensor.h"

namespace h3::spoil {

// Column c of every row is column from(c) of the original.
template <class From>
Tensor columns(const Tensor& tensor, const From& from) {
  Tensor moved = tensor.clone();
  const std::size_t word = size_of(tensor.dtype()), stride = word * std::size_t(tensor.cols());
  for (std::int64_t r = 0; r < tensor.rows(); ++r)
    for (std::int64_t c = 0; c < tensor.cols(); ++c)
      std::memcpy(moved.bytes() + std::size_t(r) * stride + std::size_t(c) * word,
                  tensor.bytes() + std::size_t(r) * stride + std::size_t(from(c)) * word, word);
  return moved;
}

inline Tensor halves_swapped(const Tensor& tensor) {
  const std::int64_t cols = tensor.cols();
  return columns(tensor, [cols](std::int64_t c) { return (c + cols / 2) % cols; });
}

inline Tensor column_range(const Tensor& tensor, std::int64_t first, std::int64_t count) {
  Tensor part(tensor.dtype(), {tensor.rows(), count});
  const std::size_t word = size_of(tensor.dtype());
  for (std::int64_t r = 0; r < tensor.rows(); ++r)
    std::memcpy(part.bytes() + std::size_t(r * count) * word,
                tensor.bytes() + std::size_t(r * tensor.cols() + first) * word, std::size_t(count) * word);
  return part;
}

// Row r (outermost extent) is row from(r) of the original; `rows` of them.
template <class From>
Tensor rows(const Tensor& tensor, std::int64_t rows, const From& from) {
  Shape shape = tensor.shape();
  const std::size_t stride = tensor.size_bytes() / std::size_t(shape[0]);
  shape[0] = rows;
  Tensor moved(tensor.dtype(), shape);
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(moved.bytes() + std::size_t(r) * stride, tensor.bytes() + std::size_t(from(r)) * stride,
                stride);
  return moved;
}

inline Tensor rows_reversed(const Tensor& tensor) {
  const std::int64_t last = tensor.shape()[0] - 1;
  return rows(tensor, last + 1, [last](std::int64_t r) { return last - r; });
}

// More rows of zeros, up to a multiple.
inline Tensor padded(const Tensor& tensor, std::int64_t multiple) {
  Shape shape = tensor.shape();
  shape[0] = (shape[0] + multiple - 1) / multiple * multiple;
  Tensor longer(tensor.dtype(), shape);
  std::memset(longer.bytes(), 0, longer.size_bytes());
  std::memcpy(longer.bytes(), tensor.bytes(), tensor.size_bytes());
  return longer;
}

// Narrowed and widened again.
inline Tensor through(const Tensor& tensor, DType narrow) { return tensor.to(narrow).to(tensor.dtype()); }

// Every value, in FP32, back in the tensor's type.
template <class Value>
Tensor values(const Tensor& tensor, const Value& value) {
  Tensor wide = tensor.to(DType::fp32);
  for (float& x : wide.values<float>()) x = value(x);
  return wide.to(tensor.dtype());
}

// A 10-bit mantissa, to nearest, as the tensor cores read FP32.
inline Tensor tf32(const Tensor& tensor) {
  return values(tensor, [](float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return std::bit_cast<float>((bits + 0x1000u) & 0xffffe000u);
  });
}

}  // namespace h3::spoil
