#include "golden/product.h"

#include <algorithm>
#include <vector>

#include "golden/blas.h"
#include "golden/cuda/product.h"
#include "golden/ordered.h"
#include "golden/values.h"

namespace h3::golden {
namespace {

// An operand as rows over which a sum runs, read as FP64: those of a tensor (rows, depth), or, `by_columns`,
// the columns of a tensor (depth, rows).
class Operand {
 public:
  explicit Operand(const Tensor& tensor, bool by_columns = false)
      : tensor_(tensor), by_columns_(by_columns), stored_cols_(tensor.cols()), stored_rows_(tensor.rows()) {
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
  std::int64_t rows() const { return by_columns_ ? stored_cols_ : stored_rows_; }
  std::int64_t depth() const { return by_columns_ ? stored_rows_ : stored_cols_; }
  bool by_columns() const { return by_columns_; }
  const Tensor& tensor() const { return tensor_; }

  // `count` rows from `first` on, k0 <= k < k0 + depth, in tiles of `tile` rows, each [depth][tile].
  void pack(std::int64_t first, std::int64_t count, std::int64_t k0, std::int64_t depth, std::int64_t tile,
            double* to) const {
    if (!by_columns_) {
      for (std::int64_t r = 0; r < count; ++r)
        copy((first + r) * stored_cols_ + k0, depth, to + r / tile * tile * depth + r % tile, tile);
      return;
    }
    for (std::int64_t k = 0; k < depth; ++k)
      for (std::int64_t r = 0; r < count; r += tile)
        copy((k0 + k) * stored_cols_ + first + r, std::min(tile, count - r), to + r * depth + k * tile, 1);
  }

  // `count` rows from `first` on, all of the depth, in the tensor's own order: (count, depth) or (depth,
  // count).
  void widen(std::int64_t first, std::int64_t count, double* to) const {
    const std::int64_t lines = by_columns_ ? stored_rows_ : count,
                       length = by_columns_ ? count : stored_cols_;
    parallel_for_each(lines, [&](std::int64_t line) {
      copy(by_columns_ ? line * stored_cols_ + first : (first + line) * stored_cols_, length,
           to + line * length, 1);
    });
  }

 private:
  // to[i * stride] = the stored element at + i, i < count.
  void copy(std::int64_t at, std::int64_t count, double* to, std::int64_t stride) const {
    if (bf16_) {
      for (std::int64_t i = 0; i < count; ++i) to[i * stride] = to_float(bf16_[at + i]);
    } else if (fp32_) {
      for (std::int64_t i = 0; i < count; ++i) to[i * stride] = fp32_[at + i];
    } else {
      for (std::int64_t i = 0; i < count; ++i) to[i * stride] = fp64_[at + i];
    }
  }

  Tensor tensor_;  // shares its memory
  bool by_columns_;
  std::int64_t stored_cols_, stored_rows_;
  const Bf16* bf16_ = nullptr;
  const float* fp32_ = nullptr;
  const double* fp64_ = nullptr;
};

// Where finished sums go: the bias last, then the one rounding of an FP32 output.
class Output {
 public:
  Output(Tensor& y, const Tensor* bias) : out_(y), cols_(y.cols()) {
    if (!bias) return;
    const Tensor values = widened(*bias);
    for (std::int64_t col = 0; col < cols_; ++col) bias_.push_back(Reals(values)[col]);
  }
  void store(std::int64_t row, std::int64_t col, double sum) const {
    out_.set(row * cols_ + col, bias_.empty() ? sum : sum + bias_[std::size_t(col)]);
  }

 private:
  Store out_;
  std::int64_t cols_;
  std::vector<double> bias_;
};

std::int64_t blocks_of(std::int64_t count, std::int64_t block) { return (count + block - 1) / block; }

// One work item is a block of output rows and columns; its sums live in `sums` while k advances chunk by
// chunk.
void ordered_product(const Operand& x, const Operand& w, const Output& y) {
  constexpr std::int64_t kRowBlock = 256, kColBlock = 64, kMostDepth = 512;
  const std::int64_t col_blocks = blocks_of(w.rows(), kColBlock);
  parallel_for_each(col_blocks * blocks_of(x.rows(), kRowBlock), [&](std::int64_t item) {
    const std::int64_t row0 = item / col_blocks * kRowBlock, col0 = item % col_blocks * kColBlock;
    const std::int64_t rows = std::min(kRowBlock, x.rows() - row0),
                       cols = std::min(kColBlock, w.rows() - col0);
    const std::int64_t row_tiles = blocks_of(rows, kTileRows), col_tiles = blocks_of(cols, kTileCols);
    constexpr std::int64_t kTile = kTileRows * kTileCols;
    std::vector<double> sums(std::size_t(row_tiles * col_tiles * kTile));
    const std::int64_t chunk = std::min(kMostDepth, x.depth());
    std::vector<double> packed_w(std::size_t(col_tiles * kTileCols * chunk)),
        packed_x(std::size_t(kTileRows * chunk));
    for (std::int64_t k0 = 0; k0 < x.depth(); k0 += chunk) {
      const std::int64_t count = std::min(chunk, x.depth() - k0);
      w.pack(col0, cols, k0, count, kTileCols, packed_w.data());
      for (std::int64_t r = 0; r < row_tiles; ++r) {
        x.pack(row0 + r * kTileRows, std::min(kTileRows, rows - r * kTileRows), k0, count, kTileRows,
               packed_x.data());
        for (std::int64_t c = 0; c < col_tiles; ++c)
          accumulate_tile(packed_x.data(), &packed_w[c * kTileCols * count], count,
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

// Panels of at most kPanelBytes of each operand, widened to FP64 and multiplied by dgemm.
void blas_product(Dgemm dgemm, const Operand& x, const Operand& w, const Output& y) {
  constexpr std::int64_t kPanelBytes = 64 << 20;
  const std::int64_t depth = x.depth();
  const std::int64_t panel = std::clamp<std::int64_t>(kPanelBytes / 8 / depth, 1, 2048);
  const std::int64_t max_rows = std::min(panel, x.rows()), max_cols = std::min(panel, w.rows());
  std::vector<double> wide_x(std::size_t(max_rows * depth)), wide_w(std::size_t(max_cols * depth));
  std::vector<double> sums(std::size_t(max_rows * max_cols));
  for (std::int64_t col0 = 0; col0 < w.rows(); col0 += panel) {
    const std::int64_t cols = std::min(panel, w.rows() - col0);
    w.widen(col0, cols, wide_w.data());
    for (std::int64_t row0 = 0; row0 < x.rows(); row0 += panel) {
      const std::int64_t rows = std::min(panel, x.rows() - row0);
      if (col0 == 0 || rows < x.rows())
        x.widen(row0, rows, wide_x.data());  // a single row panel stays widened
      dgemm(kRowMajor, x.by_columns() ? kTransposed : kAsStored, w.by_columns() ? kAsStored : kTransposed,
            int(rows), int(cols), int(depth), 1.0, wide_x.data(), int(x.by_columns() ? rows : depth),
            wide_w.data(), int(w.by_columns() ? cols : depth), 0.0, sums.data(), int(cols));
      parallel_for_each(rows, [&](std::int64_t r) {
        for (std::int64_t c = 0; c < cols; ++c) y.store(row0 + r, col0 + c, sums[r * cols + c]);
      });
    }
  }
}

DeviceOperand for_gpu(const Operand& operand) {
  return {operand.tensor(), operand.by_columns(), operand.rows(), operand.depth()};
}

// (rows of x, rows of w); `shape` is the same elements as the caller sees them.
Tensor sums_of(const Operand& x, const Operand& w, const Tensor* bias, Summation summation, DType out,
               const Shape& shape) {
  require(out == DType::fp32 || out == DType::fp64, "golden product: output {}: expected fp32 or fp64",
          name_of(out));
  if (summation == Summation::gpu) return product_on_gpu(for_gpu(x), for_gpu(w), bias, out, shape);
  Tensor y(out, shape);
  const Output output(y, bias);
  constexpr std::int64_t kShallow =
      16;  // sums of fewer terms are memory traffic: a library has nothing to gain
  const Dgemm dgemm = summation == Summation::blas && x.depth() >= kShallow ? blas_dgemm() : nullptr;
  dgemm ? blas_product(dgemm, x, w, output) : ordered_product(x, w, output);
  return y;
}

Shape with_cols(Shape shape, std::int64_t cols) {
  shape.back() = cols;
  return shape;
}

}  // namespace

Tensor product(const Tensor& x, const Tensor& weight, const Tensor* bias, Summation summation, DType out) {
  require(!x.shape().empty() && weight.shape().size() == 2 && x.cols() == weight.cols(),
          "golden product: x {} and weight {}: expected (..., K) and (N, K)", to_string(x.shape()),
          to_string(weight.shape()));
  require(!bias || bias->shape() == Shape{weight.shape()[0]}, "golden product: bias {}: expected {} values",
          bias ? to_string(bias->shape()) : "", weight.shape()[0]);
  return sums_of(Operand(x), Operand(weight), bias, summation, out, with_cols(x.shape(), weight.rows()));
}

Tensor input_gradient(const Tensor& dy, const Tensor& weight, Summation summation, DType out) {
  require(!dy.shape().empty() && weight.shape().size() == 2 && dy.cols() == weight.rows(),
          "golden input_gradient: dy {} and weight {}: expected (..., N) and (N, K)", to_string(dy.shape()),
          to_string(weight.shape()));
  return sums_of(Operand(dy), Operand(weight, true), nullptr, summation, out,
                 with_cols(dy.shape(), weight.cols()));
}

Tensor weight_gradient(const Tensor& dy, const Tensor& x, Summation summation, DType out) {
  require(!dy.shape().empty() && !x.shape().empty() && dy.rows() == x.rows(),
          "golden weight_gradient: dy {} and x {}: expected (..., N) and (..., K), equally many rows",
          to_string(dy.shape()), to_string(x.shape()));
  return sums_of(Operand(dy, true), Operand(x, true), nullptr, summation, out, {dy.cols(), x.cols()});
}

Tensor bias_gradient(const Tensor& dy, DType out) {
  const Tensor values = widened(dy);
  const Reals terms(values);
  const std::int64_t cols = dy.cols();
  return sums_over_rows(out, dy.rows(), cols,
                        [&](std::int64_t s, std::int64_t c) { return terms[s * cols + c]; });
}

}  // namespace h3::golden
