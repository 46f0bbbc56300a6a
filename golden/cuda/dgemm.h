// cuBLAS's FP64 products, opened when a golden runs on a GPU. Operands are row-major and lie on the GPU.
#pragma once

#include <cstdint>
#include <memory>

namespace h3::golden {

// A matrix of FP64: `stride` elements from row to row. In a batch `next` elements from one to the next.
struct WideMatrix {
  double* data;
  std::int64_t stride;
  bool transposed = false;  // its columns are meant
  std::int64_t next = 0;
};

// y (rows, cols) = scale * x w: sums over `depth` of x[row][k] w[k][col], in the library's own
// order; `count` of them in a batch.
struct WideProduct {
  std::int64_t rows, cols, depth;
  std::int64_t count = 1;
  double scale = 1;
};

class Dgemm {
 public:
  Dgemm();  // an Error, one line, without libcublas
  ~Dgemm();
  void run(const WideProduct& product, const WideMatrix& x, const WideMatrix& w, const WideMatrix& y) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
};

const Dgemm& dgemm();  // the process's own, opened with the first use

}  // namespace h3::golden
