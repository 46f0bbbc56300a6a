// A launch that may start while the one before it on the stream drains. The kernel calls
// wait_for_predecessor() (hopper.cuh) before it reads or writes anything.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/stream.h"

namespace h3::cuda {

template <class Arguments>
void launch_early(const char* what, void (*kernel)(Arguments), dim3 blocks, int threads, int shared_bytes,
                  Stream stream, const Arguments& arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes), what);
  check(cudaLaunchKernelEx(&config, kernel, arguments), what);
}

}  // namespace h3::cuda
