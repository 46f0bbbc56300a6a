#include "golden/cuda/dgemm.h"

#include <cublas_v2.h>

#include "golden/provider/library.h"
#include "model/error.h"

namespace h3::golden {
namespace {

void check(cublasStatus_t status, const char* what) {
  require(status == CUBLAS_STATUS_SUCCESS, "golden: {}: cuBLAS status {}", what, int(status));
}

}  // namespace

struct Dgemm::Library {
  provider::Library cublas{"libcublas.so.13"};
#define H3_FUNCTION(name) decltype(::name)* name = cublas.symbol<decltype(::name)>(#name)
  H3_FUNCTION(cublasCreate_v2);
  H3_FUNCTION(cublasDestroy_v2);
  H3_FUNCTION(cublasDgemmStridedBatched);
#undef H3_FUNCTION
  cublasHandle_t handle = nullptr;
};

Dgemm::Dgemm() : library_(std::make_unique<Library>()) {
  check(library_->cublasCreate_v2(&library_->handle), "cublasCreate");
}

Dgemm::~Dgemm() { library_->cublasDestroy_v2(library_->handle); }

// The library counts columns first: what is row-major here is the transposed matrix there, and y^T = w^T x^T.
void Dgemm::run(const WideProduct& p, const WideMatrix& x, const WideMatrix& w, const WideMatrix& y) const {
  const double zero = 0;
  const auto operation = [](const WideMatrix& m) { return m.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check(library_->cublasDgemmStridedBatched(library_->handle, operation(w), operation(x), int(p.cols),
                                            int(p.rows), int(p.depth), &p.scale, w.data, int(w.stride),
                                            w.next, x.data, int(x.stride), x.next, &zero, y.data,
                                            int(y.stride), y.next, int(p.count)),
        "cublasDgemmStridedBatched");
}

const Dgemm& dgemm() {
  static const Dgemm* const opened = new Dgemm;  // never closed: the driver may leave before this does
  return *opened;
}

}  // namespace h3::golden
