#include "kernels/packing.h"

#include "kernels/adaln_row_gather.h"
#include "kernels/checks.h"
#include "kernels/numerics/rows.h"

namespace h3::kernels {

void require_every_row_once(const std::vector<ModalityRows>& modalities, std::int64_t length,
                            std::int64_t cols) {
  constexpr const char* kRow = "packing";
  std::vector<bool> covered(static_cast<std::size_t>(length));
  std::int64_t total = 0;
  for (const auto& [rows, indices] : modalities) {
    require_dtype(kRow, "rows", rows, {DType::bf16, DType::fp32});
    require_tensor(kRow, "rows", rows, rows.dtype(), {indices.elements(), cols});
    for (const std::int64_t place : checked_index(kRow, "indices", indices, rows.rows(), length)) {
      require(!covered[std::size_t(place)], "{}: packed row {} is given twice", kRow, place);
      covered[std::size_t(place)] = true;
      ++total;
    }
  }
  require(total == length, "{}: {} of {} packed rows are given, expected all", kRow, total, length);
}

void pack_rows(const std::vector<ModalityRows>& modalities, Tensor& packed) {
  constexpr const char* kRow = "packing";
  require_dtype(kRow, "packed", packed, {DType::bf16});
  require_rank(kRow, "packed", packed, 2);
  const std::int64_t cols = packed.cols();
  require_every_row_once(modalities, packed.shape()[0], cols);
  std::vector<float> row(static_cast<std::size_t>(cols));
  for (const auto& [rows, indices] : modalities) {
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
      numerics::widen(rows, i * cols, cols, row.data());
      numerics::narrow(row.data(), indices.data<std::int64_t>()[i] * cols, cols, packed);
    }
  }
}

void pack_rows_backward(const Tensor& dpacked, std::vector<ModalityRows>& dmodalities) {
  constexpr const char* kRow = "packing_backward";
  require_dtype(kRow, "dpacked", dpacked, {DType::bf16});
  require_rank(kRow, "dpacked", dpacked, 2);
  const std::int64_t cols = dpacked.cols();
  require_every_row_once(dmodalities, dpacked.shape()[0], cols);
  std::vector<float> row(static_cast<std::size_t>(cols));
  for (auto& [rows, indices] : dmodalities) {
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
      numerics::widen(dpacked, indices.data<std::int64_t>()[i] * cols, cols, row.data());
      numerics::narrow(row.data(), i * cols, cols, rows);
    }
  }
}

void select_rows(const Tensor& packed, const Tensor& indices, Tensor& rows) {
  require_dtype("select_rows", "packed", packed, {DType::bf16, DType::fp16, DType::fp32});
  require_dtype("select_rows", "rows", rows, {packed.dtype()});
  require(packed.cols() == rows.cols(), "select_rows: rows are {}, expected {} columns",
          to_string(rows.shape()), packed.cols());
  adaln_row_gather({packed, 0}, indices, rows);
}

void select_rows_backward(const Tensor& drows, const Tensor& indices, Tensor& dpacked) {
  require_dtype("select_rows_backward", "drows", drows, {DType::bf16, DType::fp16, DType::fp32});
  require_dtype("select_rows_backward", "dpacked", dpacked, {drows.dtype()});
  require(dpacked.cols() == drows.cols(), "select_rows_backward: dpacked is {}, expected {} columns",
          to_string(dpacked.shape()), drows.cols());
  adaln_row_gather_backward(drows, indices, {dpacked, 0});
}

}  // namespace h3::kernels
