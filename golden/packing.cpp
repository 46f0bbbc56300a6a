#include "golden/packing.h"

#include "golden/adaln_row_gather.h"
#include "golden/values.h"

namespace h3::golden {

Tensor pack_rows(const std::vector<ModalityRows>& modalities) {
  require(!modalities.empty(), "golden pack_rows: no rows");
  const std::int64_t cols = modalities[0].rows.cols();
  std::int64_t count = 0;
  for (const auto& modality : modalities) count += modality.rows.rows();
  Tensor packed(border_of(modalities[0].rows), {count, cols});
  const Store out(packed);
  std::vector<bool> covered(std::size_t(count), false);
  for (const auto& [rows, indices] : modalities) {
    require_shape("pack_rows", "rows", rows, {indices.elements(), cols});
    const auto places = checked_index("pack_rows", indices, rows.rows(), count);
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
      require(!covered[places[i]], "golden pack_rows: packed row {} is given twice", places[i]);
      covered[places[i]] = true;
      const Reals row = Reals(rows) + i * cols;
      for (std::int64_t c = 0; c < cols; ++c) out.set(places[i] * cols + c, row[c]);
    }
  }
  return packed;
}

Tensor select_rows(const Tensor& packed, const Tensor& indices) { return adaln_row_gather(packed, indices); }

Tensor select_rows_backward(const Tensor& gradient, const Tensor& indices, std::int64_t rows) {
  return adaln_row_gather_backward(gradient, indices, rows);
}

}  // namespace h3::golden
