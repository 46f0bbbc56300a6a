#include "kernels/qk_norm_rope.h"

#include "kernels/mm_rope.h"
#include "kernels/qk_norm.h"

namespace h3::kernels {

void qk_norm_rope(NormRope q, NormRope k, float eps, const Tensor& cos, const Tensor& sin) {
  for (NormRope* part : {&q, &k}) {
    Tensor normed = part->normed.empty() ? Tensor(DType::bf16, part->x.shape()) : part->normed;
    qk_norm(part->x, part->weight, eps, normed);
    mm_rope(normed, cos, sin, part->rotated);
  }
}

}  // namespace h3::kernels
