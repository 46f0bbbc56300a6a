#include "golden/blas.h"

#include <dlfcn.h>

namespace h3::golden {

Dgemm blas_dgemm() {
  static const Dgemm found = [] {
    void* library = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Dgemm>(library ? ::dlsym(library, "cblas_dgemm") : nullptr);
  }();
  return found;
}

}  // namespace h3::golden
