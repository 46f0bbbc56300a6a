#include <algorithm>

#include "kernels/adaln_row_gather.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/vector.cuh"
#include "kernels/packing.h"

namespace h3::kernels::cuda {
namespace {

using Element = __nv_bfloat16;

// V elements of 4 bytes are the widest load, so V is at most 4.
template <class T, int V>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    place_rows(const T* rows, const std::int64_t* places, std::int64_t cols, Element* packed) {
  const std::int64_t from = std::int64_t(blockIdx.x) * cols, to = places[blockIdx.x] * cols;
  for (std::int64_t c = std::int64_t(threadIdx.x) * V; c < cols; c += h3::cuda::kRowThreads * V) {
    const auto in = h3::cuda::Vector<T, V>::load(rows + from + c);
    h3::cuda::Vector<Element, V> out;
#pragma unroll
    for (int i = 0; i < V; ++i) out.value[i] = in.value[i];
    out.store(packed + to + c);
  }
}

template <class T>
void launch(const Tensor& rows, const Tensor& places, Tensor& packed, Stream stream) {
  const auto* from = reinterpret_cast<const T*>(rows.bytes());
  auto* to = reinterpret_cast<Element*>(packed.bytes());
  const unsigned grid = h3::cuda::row_grid("packing", rows.shape()[0]);
  const auto* at = places.data<std::int64_t>();
  if (rows.cols() % 4 == 0)
    place_rows<T, 4><<<grid, h3::cuda::kRowThreads, 0, stream>>>(from, at, rows.cols(), to);
  else
    place_rows<T, 1><<<grid, h3::cuda::kRowThreads, 0, stream>>>(from, at, rows.cols(), to);
  h3::cuda::check_launch("packing");
}

}  // namespace

void pack_rows(const std::vector<ModalityRows>& modalities, Tensor& packed, Stream stream) {
  constexpr const char* kRow = "packing";
  require(packed.shape().size() == 2, "{}: packed is {}, expected 2 extents", kRow,
          to_string(packed.shape()));
  h3::cuda::require_tensor(kRow, "packed", packed, DType::bf16, packed.shape());
  for (const auto& [rows, indices] : modalities) {
    h3::cuda::require_tensor(kRow, "rows", rows, rows.dtype(), rows.shape());
    require(indices.device() == Device::cpu, "{}: indices lie on the GPU, expected the CPU", kRow);
  }
  require_every_row_once(modalities, packed.shape()[0], packed.cols());
  std::vector<Tensor> places;
  for (const auto& modality : modalities) places.push_back(h3::cuda::upload(modality.indices));
  for (std::size_t m = 0; m < modalities.size(); ++m) {
    const Tensor& rows = modalities[m].rows;
    if (rows.dtype() == DType::fp32)
      launch<float>(rows, places[m], packed, stream);
    else
      launch<Element>(rows, places[m], packed, stream);
  }
  h3::cuda::synchronize(stream);  // the uploaded places end with this call
}

void select_rows(const Tensor& packed, const h3::cuda::RowIndex& indices, Tensor& rows, Stream stream) {
  require(packed.dtype() == rows.dtype() && packed.cols() == rows.cols(),
          "select_rows: rows are {} {}, expected {} of {} columns", name_of(rows.dtype()),
          to_string(rows.shape()), name_of(packed.dtype()), packed.cols());
  adaln_row_gather({packed, 0}, indices, rows, stream);
}

}  // namespace h3::kernels::cuda
