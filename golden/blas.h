// The machine's OpenBLAS, for the golden's FP64 products: opened where it is, so that no build and no bundle
// needs it. Without it the golden uses its own ordered product (8 % more time for block 0, the same
// acceptance).
#pragma once

namespace h3::golden {

inline constexpr int kRowMajor = 101, kAsStored = 111, kTransposed = 112;  // of the CBLAS interface

// cblas_dgemm(order, transpose of a and b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc).
using Dgemm = void (*)(int, int, int, int, int, int, double, const double*, int, const double*, int, double,
                       double*, int);

Dgemm blas_dgemm();  // null: there is none

}  // namespace h3::golden
