#include "golden/product.h"

#include <algorithm>
#include <vector>

#include "golden/ordered.h"
#include "model/error.h"
#include "model/parallel.h"

#if H3_HAVE_BLAS
#include <cblas.h>
#endif

namespace h3::golden {
namespace {

// Rows of a two-dimensional operand, read as FP64.
class Rows {
 public:
  explicit Rows(const Tensor& tensor) : tensor_(tensor), cols_(tensor.cols()) {
    switch (tensor.dtype()) {
      case DType::bf16:
        bf16_ = tensor.data<Bf16>();
        break;
      case DType::fp32:
        fp32_ = tensor.data<float>();
        break;
      default:
        fp64_ = tensor.data<double>();
        break;
    }
  }
  // to[k * stride] = row[first + k], k < count.
  void copy(std::int64_t row, std::int64_t first, std::int64_t count, double* to, std::int64_t stride) const {
    const std::int64_t at = row * cols_ + first;
    if (bf16_) {
      for (std::int64_t k = 0; k < count; ++k) to[k * stride] = to_float(bf16_[at + k]);
    } else if (fp32_) {
      for (std::int64_t k = 0; k < count; ++k) to[k * stride] = fp32_[at + k];
    } else {
      for (std::int64_t k = 0; k < count; ++k) to[k * stride] = fp64_[at + k];
    }
  }
  std::int64_t rows() const { return tensor_.rows(); }
  std::int64_t cols() const { return cols_; }

 private:
  const Tensor& tensor_;
  std::int64_t cols_;
  const Bf16* bf16_ = nullptr;
  const float* fp32_ = nullptr;
  const double* fp64_ = nullptr;
};

// Where finished sums go: the bias last, then the one rounding of an FP32 output.
class Output {
 public:
  Output(Tensor& y, const Tensor* bias) : y_(y), cols_(y.cols()), bias_(bias) {}
  void store(std::int64_t row, std::int64_t col, double sum) {
    const double value = bias_ ? sum + double(bias_->at(col)) : sum;
    if (y_.dtype() == DType::fp32)
      y_.data<float>()[row * cols_ + col] = float(value);
    else
      y_.data<double>()[row * cols_ + col] = value;
  }

 private:
  Tensor& y_;
  std::int64_t cols_;
  const Tensor* bias_;
};

std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

// One work item is a block of output rows and columns; its sums live in `sums` while k advances chunk by
// chunk.
void ordered_product(const Rows& x, const Rows& w, Output& y) {
  constexpr std::int64_t kRowBlock = 256, kColBlock = 64, kChunk = 512;
  const std::int64_t col_blocks = blocks_of(w.rows(), kColBlock);
  parallel_for_each(col_blocks * blocks_of(x.rows(), kRowBlock), [&](std::int64_t item) {
    const std::int64_t row0 = item / col_blocks * kRowBlock, col0 = item % col_blocks * kColBlock;
    const std::int64_t rows = std::min(kRowBlock, x.rows() - row0),
                       cols = std::min(kColBlock, w.rows() - col0);
    const std::int64_t row_tiles = blocks_of(rows, kTileRows), col_tiles = blocks_of(cols, kTileCols);
    constexpr std::int64_t kTile = kTileRows * kTileCols;
    std::vector<double> sums(std::size_t(row_tiles * col_tiles * kTile));
    std::vector<double> packed_w(std::size_t(col_tiles * kTileCols * kChunk)),
        packed_x(std::size_t(kTileRows * kChunk));
    for (std::int64_t k0 = 0; k0 < x.cols(); k0 += kChunk) {
      const std::int64_t count = std::min(kChunk, x.cols() - k0);
      for (std::int64_t c = 0; c < cols; ++c)
        w.copy(col0 + c, k0, count, &packed_w[c / kTileCols * kTileCols * kChunk + c % kTileCols], kTileCols);
      for (std::int64_t r = 0; r < row_tiles; ++r) {
        for (std::int64_t i = 0; i < std::min(kTileRows, rows - r * kTileRows); ++i)
          x.copy(row0 + r * kTileRows + i, k0, count, &packed_x[i], kTileRows);
        for (std::int64_t c = 0; c < col_tiles; ++c)
          accumulate_tile(packed_x.data(), &packed_w[c * kTileCols * kChunk], count,
                          &sums[(r * col_tiles + c) * kTile]);
      }
    }
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const std::int64_t tile = r / kTileRows * col_tiles + c / kTileCols;
        y.store(row0 + r, col0 + c, sums[tile * kTile + r % kTileRows * kTileCols + c % kTileCols]);
      }
  });
}

#if H3_HAVE_BLAS
// Panels of at most kPanelBytes of each operand, widened to FP64 and multiplied by dgemm.
void blas_product(const Rows& x, const Rows& w, Output& y) {
  constexpr std::int64_t kPanelBytes = 64 << 20;
  const std::int64_t depth = x.cols();
  const std::int64_t panel = std::clamp<std::int64_t>(kPanelBytes / 8 / depth, 1, 2048);
  const std::int64_t max_rows = std::min(panel, x.rows()), max_cols = std::min(panel, w.rows());
  std::vector<double> wide_x(std::size_t(max_rows * depth)), wide_w(std::size_t(max_cols * depth));
  std::vector<double> sums(std::size_t(max_rows * max_cols));
  for (std::int64_t col0 = 0; col0 < w.rows(); col0 += panel) {
    const std::int64_t cols = std::min(panel, w.rows() - col0);
    parallel_for_each(cols, [&](std::int64_t c) { w.copy(col0 + c, 0, depth, &wide_w[c * depth], 1); });
    for (std::int64_t row0 = 0; row0 < x.rows(); row0 += panel) {
      const std::int64_t rows = std::min(panel, x.rows() - row0);
      if (col0 == 0 || rows < x.rows())  // a single row panel stays widened
        parallel_for_each(rows, [&](std::int64_t r) { x.copy(row0 + r, 0, depth, &wide_x[r * depth], 1); });
      cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, int(rows), int(cols), int(depth), 1.0,
                  wide_x.data(), int(depth), wide_w.data(), int(depth), 0.0, sums.data(), int(cols));
      parallel_for_each(rows, [&](std::int64_t r) {
        for (std::int64_t c = 0; c < cols; ++c) y.store(row0 + r, col0 + c, sums[r * cols + c]);
      });
    }
  }
}
#endif

}  // namespace

Tensor product(const Tensor& x, const Tensor& weight, const Tensor* bias,
               [[maybe_unused]] Summation summation, DType out) {
  require(!x.shape().empty() && weight.shape().size() == 2 && x.cols() == weight.cols(),
          "golden product: x {} and weight {}: expected (..., K) and (N, K)", to_string(x.shape()),
          to_string(weight.shape()));
  require(!bias || bias->shape() == Shape{weight.shape()[0]}, "golden product: bias {}: expected {} values",
          bias ? to_string(bias->shape()) : "", weight.shape()[0]);
  require(out == DType::fp32 || out == DType::fp64, "golden product: output {}: expected fp32 or fp64",
          name_of(out));
  Shape shape = x.shape();
  shape.back() = weight.shape()[0];
  Tensor y(out, shape);
  const Rows x_rows(x), w_rows(weight);
  Output output(y, bias);
#if H3_HAVE_BLAS
  if (summation == Summation::blas) {
    blas_product(x_rows, w_rows, output);
    return y;
  }
#endif
  ordered_product(x_rows, w_rows, output);
  return y;
}

}  // namespace h3::golden
