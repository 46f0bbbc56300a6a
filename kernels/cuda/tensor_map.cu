#include <cuda_runtime.h>

#include <algorithm>
#include <iterator>

#include "kernels/cuda/device.h"
#include "kernels/cuda/tensor_map.h"
#include "model/tensor.h"

namespace h3::cuda {
namespace {

// The driver's function, found at run time: listing cases needs no driver, so nothing links it.
decltype(&cuTensorMapEncodeTiled) encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  check(
      cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
      "looking for cuTensorMapEncodeTiled in the driver");
  require(found == cudaDriverEntryPointSuccess, "cuda: the driver has no cuTensorMapEncodeTiled");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

// Strides in bytes, of all extents but the innermost.
template <int kExtents>
CUtensorMap encode(const void* data, const cuuint64_t (&extents)[kExtents],
                   const cuuint64_t (&strides)[kExtents - 1], const cuuint32_t (&box)[kExtents]) {
  static const auto function = encoder();
  CUtensorMap map;
  cuuint32_t steps[kExtents];
  std::fill(steps, steps + kExtents, 1);
  const CUresult status =
      function(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, kExtents, const_cast<void*>(data), extents, strides,
               box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
               CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  require(status == CUDA_SUCCESS, "cuda: cuTensorMapEncodeTiled of {}: error {}",
          to_string(Shape(std::begin(extents), std::end(extents))), int(status));
  return map;
}

}  // namespace

CUtensorMap tensor_map(const void* matrix, std::int64_t rows, std::int64_t columns, int box_rows) {
  constexpr int kBoxColumns = 64;
  return encode<2>(matrix, {cuuint64_t(columns), cuuint64_t(rows)}, {cuuint64_t(columns) * 2},
                   {kBoxColumns, cuuint32_t(box_rows)});
}

CUtensorMap heads_map(const void* tensor, std::int64_t rows, std::int64_t heads, int box_rows) {
  constexpr int kHalf = 64, kHead = 128;
  return encode<4>(tensor, {kHalf, cuuint64_t(rows), kHead / kHalf, cuuint64_t(heads)},
                   {cuuint64_t(heads) * kHead * 2, kHalf * 2, kHead * 2},
                   {kHalf, cuuint32_t(box_rows), kHead / kHalf, 1});
}

}  // namespace h3::cuda
