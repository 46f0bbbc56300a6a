#include "kernels/adaln_row_gather.h"
#include "kernels/cuda/checks.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/row_sum.cuh"
#include "kernels/cuda/rows.cuh"

namespace h3::kernels::cuda {
namespace {

// Rows as bytes, in words of `Word`.
template <class Word>
__global__ void __launch_bounds__(h3::cuda::kRowThreads)
    copy_rows(const Word* part, std::int64_t table_words, const std::int64_t* index, std::int64_t row_words, Word* y) {
  const std::int64_t row = blockIdx.x;
  const Word* from = part + index[row] * table_words;
  for (std::int64_t i = threadIdx.x; i < row_words; i += h3::cuda::kRowThreads) y[row * row_words + i] = from[i];
}

}  // namespace

void adaln_row_gather(const TablePart& part, const h3::cuda::RowIndex& index, Tensor& y, Stream stream) {
  constexpr const char* kRow = "adaln_row_gather";
  require(y.shape().size() == 2 && y.shape()[0] == index.rows(), "{}: y is {}, expected {} rows", kRow,
          to_string(y.shape()), index.rows());
  h3::cuda::require_tensor(kRow, "y", y, y.dtype(), y.shape());
  require_part(kRow, "table", part, y.dtype(), y.cols(), index);
  const std::size_t size = size_of(y.dtype());
  const std::byte* from = part.table.bytes() + std::size_t(part.offset(0, y.cols())) * size;
  const std::int64_t row_bytes = y.cols() * std::int64_t(size), table_bytes = part.table.cols() * std::int64_t(size);
  const unsigned grid = h3::cuda::row_grid(kRow, y.shape()[0]);
  const auto run = [&]<class Word>(Word) {
    constexpr std::int64_t kBytes = sizeof(Word);
    copy_rows<<<grid, h3::cuda::kRowThreads, 0, stream>>>(reinterpret_cast<const Word*>(from), table_bytes / kBytes,
                                                         index.data(), row_bytes / kBytes,
                                                         reinterpret_cast<Word*>(y.bytes()));
  };
  if (row_bytes % 16 == 0) run(uint4{});
  else run(std::uint16_t{});
  h3::cuda::check_launch(kRow);
}

void adaln_row_gather_backward(const Tensor& dy, const h3::cuda::RowIndex& index, TablePart dpart, Tensor& workspace,
                               Stream stream) {
  constexpr const char* kRow = "adaln_row_gather_backward";
  require(dy.shape().size() == 2 && dy.shape()[0] == index.rows(), "{}: dy is {}, expected {} rows", kRow,
          to_string(dy.shape()), index.rows());
  h3::cuda::require_tensor(kRow, "dy", dy, dy.dtype(), dy.shape());
  require(dy.dtype() == DType::bf16 || dy.dtype() == DType::fp16 || dy.dtype() == DType::fp32,
          "{}: dy is {}, expected bf16, fp16 or fp32", kRow, name_of(dy.dtype()));
  require_part_gradient(kRow, "dpart", dpart, dy.dtype(), dy.cols(), index);
  h3::cuda::sum_indexed_rows(kRow, dy, index, dpart, workspace, stream);
}

}  // namespace h3::kernels::cuda
