// A CUDA stream, named without the toolkit's headers so that every kernels/<row>.h can be read without them.
#pragma once

struct CUstream_st;

namespace h3 {

using Stream = CUstream_st*;  // cudaStream_t; null is the default stream

}  // namespace h3
