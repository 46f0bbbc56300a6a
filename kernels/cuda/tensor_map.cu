#include <cuda_runtime.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/tensor_map.h"

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

}  // namespace

CUtensorMap tensor_map(const void* matrix, std::int64_t rows, std::int64_t columns, int box_rows) {
  static const auto encode = encoder();
  CUtensorMap map;
  const cuuint64_t extents[] = {cuuint64_t(columns), cuuint64_t(rows)};
  const cuuint64_t row_bytes[] = {cuuint64_t(columns) * 2};
  const cuuint32_t box[] = {64, cuuint32_t(box_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult status =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<void*>(matrix), extents, row_bytes, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  require(status == CUDA_SUCCESS, "cuda: cuTensorMapEncodeTiled of a {}x{} matrix: error {}", rows, columns,
          int(status));
  return map;
}

}  // namespace h3::cuda
