#include "kernels/numerics/chain.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>

#include "kernels/numerics/chain_kernel.h"
#include "model/parallel.h"

namespace h3::numerics {
namespace {

// A task is a block of A's rows (with its packed operands it stays in the second-level cache) against a group
// of B's rows, wide enough that packing A once for each group costs nothing.
constexpr std::int64_t kTaskRows = 512;
constexpr std::int64_t kTaskColumns = 256;
constexpr std::int64_t kTransposeTile = 16;

constexpr std::size_t kAlignment = 64;
struct AlignedDelete {
  void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(kAlignment)); }
};

template <class T>
class AlignedArray {
 public:
  explicit AlignedArray(std::int64_t count)
      : bytes_(static_cast<std::byte*>(
            ::operator new[](std::size_t(count) * sizeof(T), std::align_val_t(kAlignment)))) {}
  T* get() { return reinterpret_cast<T*>(bytes_.get()); }

 private:
  std::unique_ptr<std::byte, AlignedDelete> bytes_;
};

// out[i * out_stride + j] = in[i * i_stride + j * j_stride] for i < rows, j < columns; tiles keep both sides
// in cache where the input runs the other way.
void gather(const Bf16* in, std::int64_t i_stride, std::int64_t j_stride, std::int64_t rows,
            std::int64_t columns, Bf16* out, std::int64_t out_stride) {
  if (j_stride == 1) {
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(in + i * i_stride, columns, out + i * out_stride);
    return;
  }
  for (std::int64_t i0 = 0; i0 < rows; i0 += kTransposeTile)
    for (std::int64_t j0 = 0; j0 < columns; j0 += kTransposeTile)
      for (std::int64_t j = j0; j < std::min(j0 + kTransposeTile, columns); ++j)
        for (std::int64_t i = i0; i < std::min(i0 + kTransposeTile, rows); ++i)
          out[i * out_stride + j] = in[i * i_stride + j * j_stride];
}

class Task {
 public:
  Task(const ChainKernel& kernel, std::int64_t rows, std::int64_t columns)
      : kernel_(kernel),
        tiles_((columns + kernel.tile_columns - 1) / kernel.tile_columns),
        row_words_(rows * kBlockDepth),
        row_values_(rows * kBlockDepth),
        row_exponents_(rows * kBlockDepth),
        row_flags_(rows),
        panel_words_(kernel.tile_columns * kBlockDepth),
        panel_values_(kernel.tile_columns * kBlockDepth),
        panel_exponents_(kernel.tile_columns * kBlockDepth * std::int64_t(kernel.exponent_bytes)),
        sums_(tiles_ * rows * kernel.tile_columns) {}

  void run(const Operand& a, const Operand& b, const float* start, float* c, std::int64_t c_stride) {
    load_sums(a.rows, b.rows, start, c_stride);
    for (std::int64_t k = 0; k < a.depth; k += kBlockDepth) {
      const std::int64_t depth = std::min(kBlockDepth, a.depth - k);
      const std::int64_t steps = (depth + kChainStep - 1) / kChainStep;
      const PackedRows rows = pack_rows(a, k, depth);
      for (std::int64_t tile = 0; tile < tiles_; ++tile) {
        const PackedPanel panel = pack_panel(b, tile, k, depth);
        kernel_.run(rows, a.rows, panel, steps, sums_of(tile, a.rows));
      }
    }
    store_sums(a.rows, b.rows, c, c_stride);
  }

 private:
  float* sums_of(std::int64_t tile, std::int64_t rows) {
    return sums_.get() + tile * rows * kernel_.tile_columns;
  }

  void load_sums(std::int64_t rows, std::int64_t columns, const float* start, std::int64_t stride) {
    std::fill_n(sums_.get(), tiles_ * rows * kernel_.tile_columns, 0.0f);
    if (start == nullptr) return;
    for_each_piece(rows, columns,
                   [&](std::int64_t row, std::int64_t column, std::int64_t count, float* sums) {
                     std::copy_n(start + row * stride + column, count, sums);
                   });
  }

  void store_sums(std::int64_t rows, std::int64_t columns, float* c, std::int64_t stride) {
    for_each_piece(rows, columns,
                   [&](std::int64_t row, std::int64_t column, std::int64_t count, float* sums) {
                     std::copy_n(sums, count, c + row * stride + column);
                   });
  }

  template <class Fn>
  void for_each_piece(std::int64_t rows, std::int64_t columns, Fn fn) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t tile = 0; tile < tiles_; ++tile) {
        const std::int64_t column = tile * kernel_.tile_columns;
        fn(row, column, std::min(kernel_.tile_columns, columns - column),
           sums_of(tile, rows) + row * kernel_.tile_columns);
      }
  }

  PackedRows pack_rows(const Operand& a, std::int64_t k, std::int64_t depth) {
    if (depth < kBlockDepth) std::fill_n(row_words_.get(), a.rows * kBlockDepth, Bf16(0));
    gather(a.data + k * a.depth_stride, a.row_stride, a.depth_stride, a.rows, depth, row_words_.get(),
           kBlockDepth);
    const PackedRows rows{row_values_.get(), row_exponents_.get(), row_flags_.get()};
    kernel_.pack_rows(row_words_.get(), a.rows, rows);
    return rows;
  }

  PackedPanel pack_panel(const Operand& b, std::int64_t tile, std::int64_t k, std::int64_t depth) {
    const std::int64_t column = tile * kernel_.tile_columns;
    const std::int64_t columns = std::min(kernel_.tile_columns, b.rows - column);
    if (depth < kBlockDepth || columns < kernel_.tile_columns)
      std::fill_n(panel_words_.get(), kBlockDepth * kernel_.tile_columns, Bf16(0));
    gather(b.data + column * b.row_stride + k * b.depth_stride, b.depth_stride, b.row_stride, depth, columns,
           panel_words_.get(), kernel_.tile_columns);
    const PackedPanel panel{panel_values_.get(), panel_exponents_.get(), &panel_flags_};
    kernel_.pack_panel(panel_words_.get(), panel);
    return panel;
  }

  const ChainKernel& kernel_;
  const std::int64_t tiles_;
  AlignedArray<Bf16> row_words_;
  AlignedArray<float> row_values_;
  AlignedArray<std::int32_t> row_exponents_;
  AlignedArray<Flags> row_flags_;
  AlignedArray<Bf16> panel_words_;
  AlignedArray<float> panel_values_;
  AlignedArray<std::byte> panel_exponents_;
  Flags panel_flags_;
  AlignedArray<float> sums_;
};

const ChainKernel* kernel_of(ChainIsa isa) {
  switch (isa) {
    case ChainIsa::portable:
      return chain_kernel_portable();
    case ChainIsa::avx2:
      return chain_kernel_avx2();
    case ChainIsa::avx512:
      return chain_kernel_avx512();
  }
  return nullptr;
}

Operand part_of(const Operand& operand, std::int64_t first, std::int64_t count) {
  Operand part = operand;
  part.data += first * operand.row_stride;
  part.rows = std::min(count, operand.rows - first);
  return part;
}

}  // namespace

ChainIsa chosen_chain_isa() {
  const std::vector<ChainIsa> isas = available_chain_isas();
  const char* asked = std::getenv("H3_CHAIN_ISA");
  if (asked == nullptr) return isas.back();
  for (const ChainIsa isa : isas)
    if (std::string_view(asked) == name_of(isa)) return isa;
  std::string names;
  for (const ChainIsa isa : isas) names += (names.empty() ? "" : ", ") + std::string(name_of(isa));
  fail("H3_CHAIN_ISA is \"{}\": this machine has {}", asked, names);
}

const char* name_of(ChainIsa isa) {
  switch (isa) {
    case ChainIsa::portable:
      return "portable";
    case ChainIsa::avx2:
      return "avx2";
    case ChainIsa::avx512:
      return "avx512";
  }
  return "?";
}

std::vector<ChainIsa> available_chain_isas() {
  std::vector<ChainIsa> isas;
  for (const ChainIsa isa : {ChainIsa::portable, ChainIsa::avx2, ChainIsa::avx512})
    if (kernel_of(isa) != nullptr) isas.push_back(isa);
  return isas;
}

Operand rows_of(const Tensor& matrix) {
  return {matrix.data<Bf16>(), matrix.rows(), matrix.cols(), matrix.cols(), 1};
}

Operand columns_of(const Tensor& matrix) {
  return {matrix.data<Bf16>(), matrix.cols(), matrix.rows(), 1, matrix.cols()};
}

void chain_with(ChainIsa isa, const Operand& a, const Operand& b, const float* start, float* c,
                std::int64_t c_stride) {
  const ChainKernel* kernel = kernel_of(isa);
  require(kernel != nullptr, "chain: this machine has no {}", name_of(isa));
  require(a.rows > 0 && b.rows > 0 && a.depth > 0, "chain: empty operand ({} and {} rows, depth {})", a.rows,
          b.rows, a.depth);
  require(a.depth == b.depth, "chain: depths {} and {} differ", a.depth, b.depth);
  require(c_stride >= b.rows, "chain: row stride {} of the result is below its {} columns", c_stride, b.rows);
  const std::int64_t row_blocks = (a.rows + kTaskRows - 1) / kTaskRows;
  const std::int64_t groups = (b.rows + kTaskColumns - 1) / kTaskColumns;
  parallel_for(0, row_blocks * groups, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t task = first; task < last; ++task) {
      const std::int64_t row = task % row_blocks * kTaskRows, column = task / row_blocks * kTaskColumns;
      const Operand rows = part_of(a, row, kTaskRows), columns = part_of(b, column, kTaskColumns);
      const std::int64_t offset = row * c_stride + column;
      Task(*kernel, rows.rows, columns.rows)
          .run(rows, columns, start != nullptr ? start + offset : nullptr, c + offset, c_stride);
    }
  });
}

void chain(const Operand& a, const Operand& b, const float* start, float* c, std::int64_t c_stride) {
  static const ChainIsa isa = chosen_chain_isa();
  chain_with(isa, a, b, start, c, c_stride);
}

}  // namespace h3::numerics
