// A dense, contiguous, row-major tensor handle with shared storage. Copying the handle does not copy the
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/error.h"

namespace h3 {

using Shape = std::vector<std::int64_t>;

std::string to_string(const Shape& shape);  // "264x5376"

// Where the elements lie. Host code may read only what lies on the CPU; at() and the copies check it.
enum class Device : std::uint8_t { cpu, cuda };

class Tensor {
 public:
  Tensor() = default;
  Tensor(DType dtype,
         Shape shape);  // 64-byte aligned; every byte is poisoned to 0xFF, a NaN in every float format
  // A view of memory kept alive by `owner` (a mapped file, another tensor).
  Tensor(DType dtype, Shape shape, std::shared_ptr<std::byte> first_byte, Device device = Device::cpu);

  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  const Shape& shape() const { return shape_; }
  bool empty() const { return !storage_; }
  std::int64_t elements() const;
  std::int64_t cols() const { return shape_.back(); }        // innermost extent
  std::int64_t rows() const { return elements() / cols(); }  // all outer extents together
  std::size_t size_bytes() const { return std::size_t(elements()) * size_of(dtype_); }

  std::byte* bytes() { return storage_.get(); }
  const std::byte* bytes() const { return storage_.get(); }
  std::span<const std::byte> byte_span() const { return {bytes(), size_bytes()}; }

  template <class T>
  T* data() {
    check_type(DTypeOf<T>::value);
    return reinterpret_cast<T*>(storage_.get());
  }
  template <class T>
  const T* data() const {
    check_type(DTypeOf<T>::value);
    return reinterpret_cast<const T*>(storage_.get());
  }
  template <class T>
  std::span<T> values() {
    return {data<T>(), std::size_t(elements())};
  }
  template <class T>
  std::span<const T> values() const {
    return {data<T>(), std::size_t(elements())};
  }

  float at(std::int64_t index) const;  // any float dtype, widened (FP64 is rounded)
  Tensor reshaped(Shape shape) const;  // same storage
  Tensor row_range(std::int64_t first, std::int64_t count) const;  // same storage; outermost extent
  Tensor clone() const;
  Tensor to(DType dtype) const;  // a copy, rounded to nearest even where it narrows

 private:
  void check_type(DType asked) const {
    if (asked != dtype_) fail("tensor holds {}, asked for {}", name_of(dtype_), name_of(asked));
  }
  void check_on_cpu() const { require(device_ == Device::cpu, "tensor lies on the GPU: download it first"); }
  DType dtype_ = DType::fp32;
  Device device_ = Device::cpu;
  Shape shape_;
  std::shared_ptr<std::byte> storage_;
};

}  // namespace h3
