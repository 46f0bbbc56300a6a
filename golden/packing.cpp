#include "golden/packing.h"

#include "golden/adaln_row_gather.h"
#include "golden/values.h"

namespace h3::golden {

Tensor pack_rows(const std::vector<ModalityRows>& modalities) {
  require(!modalities.empty(), "golden pack_rows: no rows");
  const std::int64_t cols = modalities[0].rows.cols();
  std::int64_t count = 0;
  for (const auto& modality : modalities) count += modality.rows.rows();
  Tensor packed(DType::fp32, {count, cols});
  std::vector<bool> covered(std::size_t(count), false);
  for (const auto& [rows, indices] : modalities) {
    require_shape("pack_rows", "rows", rows, {indices.elements(), cols});
    const auto places = checked_index("pack_rows", indices, rows.rows(), count);
    for (std::int64_t i = 0; i < rows.rows(); ++i) {
      require(!covered[places[i]], "golden pack_rows: packed row {} is given twice", places[i]);
      covered[places[i]] = true;
      std::copy_n(rows.data<float>() + i * cols, cols, packed.data<float>() + places[i] * cols);
    }
  }
  return packed;
}

Tensor select_rows(const Tensor& packed, const Tensor& indices) { return adaln_row_gather(packed, indices); }

}  // namespace h3::golden
