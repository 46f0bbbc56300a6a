// The GPU that strict kernels run on: memory, copies, checks. Strict kernels promise bits for Hopper (sm_90)
// only and refuse any other device.
#pragma once

#include <string>

#include "kernels/cuda/stream.h"
#include "model/tensor.h"

namespace h3::cuda {

// Empty when strict kernels can run here; otherwise why not, one line: no driver, no device, another
// architecture, a build whose GPU code does not round as IEEE says (kernels/cuda/arithmetic.h).
std::string why_unavailable();
std::string device_name();  // of the device that runs them
int multiprocessors();      // of the current device

Tensor allocate(DType dtype, const Shape& shape);  // every byte 0xFF, as a new CPU tensor
void poison(Tensor& device);                       // every byte 0xFF again
std::int64_t free_bytes();                         // that allocate could still get
void copy(const Tensor& from, Tensor to);          // on the GPU, as many bytes
// `height` pieces of `width` bytes on the GPU, one every `pitch` bytes.
void copy_rectangle(std::byte* to, std::size_t to_pitch, const std::byte* from, std::size_t from_pitch,
                    std::size_t width, std::size_t height);
Tensor upload(const Tensor& host);
Tensor download(const Tensor& device);      // waits for the default stream's work
void synchronize(Stream stream = nullptr);  // an asynchronous failure becomes an Error here

// Used by kernels/*.cu. A status that is not success becomes an Error naming what was attempted.
void check(int cuda_status, const char* what);
void check_launch(const char* kernel);  // cudaGetLastError after a launch

// What every strict kernel checks before a launch, one line naming row and argument.
void require_tensor(const char* row, const char* argument, const Tensor& tensor, DType dtype,
                    const Shape& shape);

// Parts of a workspace that the caller passed in, one after the other. What needs alignment is taken first.
class Workspace {
 public:
  // fp32 on the GPU with at least `needed` elements, else an Error.
  Workspace(const char* row, Tensor& memory, std::int64_t needed);
  float* take(std::int64_t elements);

 private:
  float* next_;
};

}  // namespace h3::cuda
