#include <cutlass/gemm/device/gemm.h>

#include "golden/cutlass/cutlass_product.h"
#include "model/error.h"

namespace h3::second {
namespace {

using Element = cutlass::bfloat16_t;
using Row = cutlass::layout::RowMajor;
using Column = cutlass::layout::ColumnMajor;

// D (M,N) row-major = A (M,K) B (K,N), sums in FP32: the warp-wide instruction of Ampere (m16n8k16), which
// strict kernels do not use, and other tiles.
template <class LayoutA, class LayoutB>
void product(const char* what, const Tensor& a, const Tensor& b, Tensor& d, int m, int n, int k,
             Stream stream) {
  constexpr int kAlignment = 8;  // elements in 16 bytes
  using Output = cutlass::epilogue::thread::LinearCombination<Element, kAlignment, float, float,
                                                              cutlass::epilogue::thread::ScaleType::Nothing>;
  using Gemm =
      cutlass::gemm::device::Gemm<Element, LayoutA, Element, LayoutB, Element, Row, float,
                                  cutlass::arch::OpClassTensorOp, cutlass::arch::Sm80,
                                  cutlass::gemm::GemmShape<128, 128, 32>,
                                  cutlass::gemm::GemmShape<64, 64, 32>, cutlass::gemm::GemmShape<16, 8, 16>,
                                  Output, cutlass::gemm::threadblock::GemmIdentityThreadblockSwizzle<>, 4>;
  const auto words = [](const Tensor& tensor) {
    return const_cast<Element*>(reinterpret_cast<const Element*>(tensor.bytes()));
  };
  const auto leading = [](const Tensor& tensor) { return int(tensor.cols()); };
  const typename Gemm::Arguments arguments{{m, n, k},     {words(a), leading(a)}, {words(b), leading(b)},
                                           {words(d), n}, {words(d), n},          {}};
  Gemm gemm;
  for (const auto status : {gemm.can_implement(arguments), gemm.initialize(arguments), gemm.run(stream)})
    require(status == cutlass::Status::kSuccess, "{}: CUTLASS: {}", what,
            cutlass::cutlassGetStatusString(status));
}

}  // namespace

void cutlass_forward(const Tensor& x, const Tensor& weight, Tensor& y, Stream stream) {
  product<Row, Column>("cutlass_forward", x, weight, y, int(x.rows()), int(weight.rows()), int(x.cols()),
                       stream);
}

void cutlass_input_gradient(const Tensor& dy, const Tensor& weight, Tensor& dx, Stream stream) {
  product<Row, Row>("cutlass_input_gradient", dy, weight, dx, int(dy.rows()), int(weight.cols()),
                    int(dy.cols()), stream);
}

void cutlass_weight_gradient(const Tensor& dy, const Tensor& x, Tensor& dweight, Stream stream) {
  product<Column, Row>("cutlass_weight_gradient", dy, x, dweight, int(dy.cols()), int(x.cols()),
                       int(dy.rows()), stream);
}

}  // namespace h3::second
