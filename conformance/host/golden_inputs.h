// Inputs and measures of the golden cases. A value is a function of (name, index) and nothing else.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "model/tensor.h"

namespace h3 {

// In [-1, 1), a multiple of 2^-20.
inline double uniform(std::string_view name, std::int64_t index) {
  std::uint64_t z = 0x9e3779b97f4a7c15u * std::uint64_t(index + 1);
  for (const char letter : name) z = (z ^ std::uint64_t(letter)) * 0x100000001b3u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return double((z ^ (z >> 31)) >> 43) * 0x1p-20 - 1;
}

template <class Value>
Tensor tensor_of(Shape shape, const Value& value) {
  Tensor tensor(DType::fp32, std::move(shape));
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.data<float>()[i] = float(value(i));
  return tensor;
}

inline Tensor random(std::string_view name, Shape shape, DType dtype = DType::fp32) {
  return tensor_of(std::move(shape), [&](std::int64_t i) { return uniform(name, i); }).to(dtype);
}

inline Tensor indices(std::initializer_list<std::int64_t> values) {
  Tensor tensor(DType::i64, {std::int64_t(values.size())});
  std::copy(values.begin(), values.end(), tensor.data<std::int64_t>());
  return tensor;
}

// max |y - expected| / max |expected|; not a number as soon as y or expected holds one, or sizes differ.
inline double relative_error(const Tensor& y, const Tensor& expected) {
  if (y.elements() != expected.elements()) return NAN;
  double error = 0, scale = 0;
  for (std::int64_t i = 0; i < y.elements(); ++i) {
    const double difference = std::fabs(double(y.at(i)) - double(expected.at(i)));
    if (!std::isfinite(difference)) return NAN;
    error = std::max(error, difference);
    scale = std::max(scale, std::fabs(double(expected.at(i))));
  }
  return error / scale;
}

}  // namespace h3
