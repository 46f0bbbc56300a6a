#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/arithmetic.h"
#include "kernels/cuda/device.h"

namespace h3::cuda {

void check(int cuda_status, const char* what) {
  const auto status = cudaError_t(cuda_status);
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // reported here, not once more by the next launch
  fail("cuda: {}: {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

void check_launch(const char* kernel) { check(cudaGetLastError(), kernel); }

std::string why_unavailable() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();  // not sticky: the next call starts clean
    return status == cudaSuccess ? "no CUDA device"
                                 : fmt::format("no CUDA device: {}", cudaGetErrorString(status));
  }
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "reading the device's properties");
  if (properties.major != 9 || properties.minor != 0)
    return fmt::format("{} has compute capability {}.{}, strict kernels are for 9.0 (Hopper)",
                       properties.name, properties.major, properties.minor);
  static const std::string wrong = wrong_arithmetic();
  return wrong;
}

int multiprocessors() {
  int device = 0, count = 0;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "counting multiprocessors");
  return count;
}

std::string device_name() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "reading the device's properties");
  return properties.name;
}

namespace {

// The current device's pool, which keeps what is freed: a node's output costs microseconds, not the
// milliseconds of mapping gigabytes anew.
cudaMemPool_t memory_pool() {
  int device = 0;
  cudaMemPool_t pool = nullptr;
  check(cudaGetDevice(&device), "asking for the device");
  check(cudaDeviceGetDefaultMemPool(&pool, device), "asking for the memory pool");
  std::uint64_t keep = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "setting up the memory pool");
  return pool;
}

std::int64_t kept_by_pool() {
  std::uint64_t reserved = 0, used = 0;
  check(cudaMemPoolGetAttribute(memory_pool(), cudaMemPoolAttrReservedMemCurrent, &reserved),
        "asking the memory pool");
  check(cudaMemPoolGetAttribute(memory_pool(), cudaMemPoolAttrUsedMemCurrent, &used),
        "asking the memory pool");
  return std::int64_t(reserved - used);
}

}  // namespace

Tensor allocate(DType dtype, const Shape& shape) {
  const std::size_t bytes = std::max<std::size_t>(Tensor(dtype, shape, nullptr).size_bytes(), 1);
  void* memory = nullptr;
  const cudaMemPool_t pool = memory_pool();
  cudaError_t status = cudaMallocFromPoolAsync(&memory, bytes, pool, nullptr);
  if (status == cudaErrorMemoryAllocation) {
    // What the pool keeps is in pieces that are too small, perhaps: back to the device, and once more.
    static_cast<void>(cudaGetLastError());
    synchronize();
    check(cudaMemPoolTrimTo(pool, 0), "trimming the memory pool");
    status = cudaMallocFromPoolAsync(&memory, bytes, pool, nullptr);
  }
  check(status, "allocating device memory");
  // Freed in the order of the default stream, which waits for all others that this suite uses.
  std::shared_ptr<std::byte> owner(static_cast<std::byte*>(memory),
                                   [](std::byte* p) { cudaFreeAsync(p, nullptr); });
  check(cudaMemsetAsync(memory, 0xff, bytes, nullptr), "poisoning device memory");
  return {dtype, shape, std::move(owner), Device::cuda};
}

void poison(Tensor& device) {
  require(device.device() == Device::cuda, "poison: the tensor lies on the CPU");
  check(cudaMemset(device.bytes(), 0xff, device.size_bytes()), "poisoning device memory");
}

std::int64_t free_bytes() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "asking for free memory");
  return std::int64_t(free) + kept_by_pool();
}

void copy(const Tensor& from, Tensor to) {
  require(
      from.device() == Device::cuda && to.device() == Device::cuda && from.size_bytes() == to.size_bytes(),
      "copy: {} to {}, expected as many bytes, both on the GPU", to_string(from.shape()),
      to_string(to.shape()));
  check(cudaMemcpy(to.bytes(), from.bytes(), to.size_bytes(), cudaMemcpyDeviceToDevice),
        "copying on the device");
}

void copy_rectangle(std::byte* to, std::size_t to_pitch, const std::byte* from, std::size_t from_pitch,
                    std::size_t width, std::size_t height) {
  // One piece may be longer than the largest pitch.
  check(height == 1 ? cudaMemcpy(to, from, width, cudaMemcpyDeviceToDevice)
                    : cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, cudaMemcpyDeviceToDevice),
        "copying a rectangle on the device");
}

Tensor upload(const Tensor& host) {
  require(host.device() == Device::cpu, "upload: the tensor lies on the GPU already");
  Tensor device = allocate(host.dtype(), host.shape());
  check(cudaMemcpy(device.bytes(), host.bytes(), host.size_bytes(), cudaMemcpyHostToDevice),
        "copying to the device");
  return device;
}

Tensor download(const Tensor& device) {
  require(device.device() == Device::cuda, "download: the tensor lies on the CPU already");
  Tensor host(device.dtype(), device.shape());
  check(cudaMemcpy(host.bytes(), device.bytes(), device.size_bytes(), cudaMemcpyDeviceToHost),
        "copying from the device");
  return host;
}

void require_tensor(const char* row, const char* argument, const Tensor& tensor, DType dtype,
                    const Shape& shape) {
  require(tensor.device() == Device::cuda, "{}: {} lies on the CPU, expected the GPU", row, argument);
  require(tensor.dtype() == dtype, "{}: {} is {}, expected {}", row, argument, name_of(tensor.dtype()),
          name_of(dtype));
  require(tensor.shape() == shape, "{}: {} is {}, expected {}", row, argument, to_string(tensor.shape()),
          to_string(shape));
  require(tensor.elements() > 0, "{}: {} is empty ({})", row, argument, to_string(shape));
}

Workspace::Workspace(const char* row, Tensor& memory, std::int64_t needed) {
  require_tensor(row, "workspace", memory, DType::fp32, memory.shape());
  require(memory.elements() >= needed, "{}: workspace has {} elements, expected at least {}", row,
          memory.elements(), needed);
  next_ = memory.data<float>();
}

float* Workspace::take(std::int64_t elements) {
  float* part = next_;
  next_ += elements;
  return part;
}

void synchronize(Stream stream) { check(cudaStreamSynchronize(stream), "waiting for the device"); }

}  // namespace h3::cuda
