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

template <class T, int V>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    take_rows(const Element* packed, const std::int64_t* places, std::int64_t cols, T* rows) {
  const std::int64_t to = std::int64_t(blockIdx.x) * cols, from = places[blockIdx.x] * cols;
  for (std::int64_t c = std::int64_t(threadIdx.x) * V; c < cols; c += h3::cuda::kRowThreads * V) {
    const auto in = h3::cuda::Vector<Element, V>::load(packed + from + c);
    h3::cuda::Vector<T, V> out;
#pragma unroll
    for (int i = 0; i < V; ++i) out.value[i] = in.value[i];
    out.store(rows + to + c);
  }
}

template <class T>
void launch_backward(const Tensor& packed, const Tensor& places, Tensor& rows, Stream stream) {
  const auto* from = reinterpret_cast<const Element*>(packed.bytes());
  auto* to = reinterpret_cast<T*>(rows.bytes());
  const unsigned grid = h3::cuda::row_grid("packing_backward", rows.shape()[0]);
  const auto* at = places.data<std::int64_t>();
  if (rows.cols() % 4 == 0)
    take_rows<T, 4><<<grid, h3::cuda::kRowThreads, 0, stream>>>(from, at, rows.cols(), to);
  else
    take_rows<T, 1><<<grid, h3::cuda::kRowThreads, 0, stream>>>(from, at, rows.cols(), to);
  h3::cuda::check_launch("packing_backward");
}

// Checks of both directions, then the places of every modality's rows on the GPU.
std::vector<Tensor> places_of(const char* row, const char* what, const Tensor& packed,
                              const std::vector<ModalityRows>& modalities) {
  require(packed.shape().size() == 2, "{}: {} is {}, expected 2 extents", row, what, to_string(packed.shape()));
  h3::cuda::require_tensor(row, what, packed, DType::bf16, packed.shape());
  for (const auto& [rows, indices] : modalities) {
    h3::cuda::require_tensor(row, "rows", rows, rows.dtype(), rows.shape());
    require(indices.device() == Device::cpu, "{}: indices lie on the GPU, expected the CPU", row);
  }
  require_every_row_once(modalities, packed.shape()[0], packed.cols());
  std::vector<Tensor> places;
  for (const auto& modality : modalities) places.push_back(h3::cuda::upload(modality.indices));
  return places;
}

}  // namespace

void pack_rows(const std::vector<ModalityRows>& modalities, Tensor& packed, Stream stream) {
  const std::vector<Tensor> places = places_of("packing", "packed", packed, modalities);
  for (std::size_t m = 0; m < modalities.size(); ++m) {
    const Tensor& rows = modalities[m].rows;
    if (rows.dtype() == DType::fp32)
      launch<float>(rows, places[m], packed, stream);
    else
      launch<Element>(rows, places[m], packed, stream);
  }
  h3::cuda::synchronize(stream);  // the uploaded places end with this call
}

void pack_rows_backward(const Tensor& dpacked, std::vector<ModalityRows>& dmodalities, Stream stream) {
  const std::vector<Tensor> places = places_of("packing_backward", "dpacked", dpacked, dmodalities);
  for (std::size_t m = 0; m < dmodalities.size(); ++m) {
    Tensor& rows = dmodalities[m].rows;
    if (rows.dtype() == DType::fp32)
      launch_backward<float>(dpacked, places[m], rows, stream);
    else
      launch_backward<Element>(dpacked, places[m], rows, stream);
  }
  h3::cuda::synchronize(stream);  // the uploaded places end with this call
}

void select_rows(const Tensor& packed, const h3::cuda::RowIndex& indices, Tensor& rows, Stream stream) {
  require(packed.dtype() == rows.dtype() && packed.cols() == rows.cols(),
          "select_rows: rows are {} {}, expected {} of {} columns", name_of(rows.dtype()),
          to_string(rows.shape()), name_of(packed.dtype()), packed.cols());
  adaln_row_gather({packed, 0}, indices, rows, stream);
}

void select_rows_backward(const Tensor& drows, const h3::cuda::RowIndex& indices, Tensor& dpacked, Tensor& workspace,
                          Stream stream) {
  require(dpacked.dtype() == drows.dtype() && dpacked.cols() == drows.cols(),
          "select_rows_backward: dpacked is {} {}, expected {} of {} columns", name_of(dpacked.dtype()),
          to_string(dpacked.shape()), name_of(drows.dtype()), drows.cols());
  adaln_row_gather_backward(drows, indices, {dpacked, 0}, workspace, stream);
}

}  // namespace h3::kernels::cuda
