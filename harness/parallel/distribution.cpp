#include "harness/parallel/distribution.h"

#include <algorithm>
#include <cstring>

#ifdef H3_HAVE_CUDA
#include "kernels/cuda/device.h"
#endif

namespace h3 {
namespace {

std::int64_t total(const std::vector<Run>& runs) {
  std::int64_t sum = 0;
  for (const Run& run : runs) sum += run.count;
  return sum;
}

std::vector<Run> common(const std::vector<Run>& a, const std::vector<Run>& b) {
  std::vector<Run> runs;
  for (const Run& x : a)
    for (const Run& y : b) {
      const std::int64_t first = std::max(x.first, y.first);
      const std::int64_t end = std::min(x.first + x.count, y.first + y.count);
      if (first < end) runs.push_back({first, end - first});
    }
  return runs;
}

Part common(const Part& a, const Part& b) { return {common(a.rows, b.rows), common(a.cols, b.cols)}; }

std::int64_t local_of(const std::vector<Run>& runs, std::int64_t global) {
  std::int64_t before = 0;
  for (const Run& run : runs) {
    if (global >= run.first && global < run.first + run.count) return before + global - run.first;
    before += run.count;
  }
  fail("distribution: {} lies outside of a part", global);
}

std::int64_t global_of(const std::vector<Run>& runs, std::int64_t local) {
  for (const Run& run : runs) {
    if (local < run.count) return run.first + local;
    local -= run.count;
  }
  fail("distribution: {} items beyond a part", local);
}

Tensor allocate_like(const Tensor& tensor, const Part& part) {
  const Shape shape = {part.height(), part.width()};
#ifdef H3_HAVE_CUDA
  if (tensor.device() == Device::cuda) return cuda::allocate(tensor.dtype(), shape);
#endif
  return Tensor(tensor.dtype(), shape);
}

void copy_rectangle(const Tensor& from, std::int64_t from_row, std::int64_t from_col, Tensor& to,
                    std::int64_t to_row, std::int64_t to_col, std::int64_t height, std::int64_t width) {
  const std::size_t word = size_of(from.dtype()), from_pitch = word * std::size_t(from.cols()),
                    to_pitch = word * std::size_t(to.cols()), bytes = word * std::size_t(width);
  const std::byte* source = from.bytes() + std::size_t(from_row) * from_pitch + word * std::size_t(from_col);
  std::byte* target = to.bytes() + std::size_t(to_row) * to_pitch + word * std::size_t(to_col);
  const bool in_one_piece = from_pitch == bytes && to_pitch == bytes;
  const std::size_t piece = in_one_piece ? bytes * std::size_t(height) : bytes;
  const std::size_t pieces = in_one_piece ? 1 : std::size_t(height);
#ifdef H3_HAVE_CUDA
  if (from.device() == Device::cuda)
    return cuda::copy_rectangle(target, to_pitch, source, from_pitch, piece, pieces);
#endif
  for (std::size_t row = 0; row < pieces; ++row)
    std::memcpy(target + row * to_pitch, source + row * from_pitch, piece);
}

// The cells that both parts have.
void copy_common(const Tensor& from, const Part& held, Tensor& to, const Part& wanted) {
  const Part shared = common(held, wanted);
  for (const Run& rows : shared.rows)
    for (const Run& cols : shared.cols)
      copy_rectangle(from, local_of(held.rows, rows.first), local_of(held.cols, cols.first), to,
                     local_of(wanted.rows, rows.first), local_of(wanted.cols, cols.first), rows.count,
                     cols.count);
}

void require_part(const Tensor& tensor, const Part& part, const char* what) {
  require(tensor.elements() == part.height() * part.width(), "{}: a tensor {}, expected {} rows of {}", what,
          to_string(tensor.shape()), part.height(), part.width());
}

}  // namespace

std::string Layout::to_string() const {
  switch (axis) {
    case Axis::whole:
      return "whole";
    case Axis::root:
      return "on rank 0";
    case Axis::rows:
      return fmt::format("rows by {}", name_of(kind));
    case Axis::columns:
      return fmt::format("columns by {}", name_of(kind));
  }
  return "?";
}

std::int64_t Part::height() const { return total(rows); }
std::int64_t Part::width() const { return total(cols); }
std::int64_t Part::row(std::int64_t local) const { return global_of(rows, local); }
std::int64_t Part::col(std::int64_t local) const { return global_of(cols, local); }

Part part_of(const Ownership& ownership, Layout layout, Extent extent, int rank) {
  const Part whole = {{{0, extent.rows}}, {{0, extent.cols}}};
  if (layout.axis == Layout::Axis::whole) return whole;
  if (layout.axis == Layout::Axis::root) return rank == 0 ? whole : Part{};
  const bool by_rows = layout.axis == Layout::Axis::rows;
  const std::int64_t unit = ownership.unit(layout.kind), once = ownership.items(layout.kind) * unit;
  const std::int64_t length = by_rows ? extent.rows : extent.cols;
  require(length > 0 && length % once == 0, "{}: an extent of {}, expected a multiple of {}",
          layout.to_string(), length, once);
  const Run run = ownership.of(layout.kind, rank);
  std::vector<Run> runs;
  for (std::int64_t start = 0; start < length; start += once)
    runs.push_back({start + run.first * unit, run.count * unit});
  return by_rows ? Part{runs, whole.cols} : Part{whole.rows, runs};
}

Tensor cut(const Tensor& from, const Part& held, const Part& wanted) {
  require_part(from, held, "cut");
  const Part shared = common(held, wanted);
  require(shared.height() == wanted.height() && shared.width() == wanted.width(),
          "cut: {} x {} of {} x {} wanted cells are held", shared.height(), shared.width(), wanted.height(),
          wanted.width());
  const Tensor matrix = from.reshaped({held.height(), held.width()});
  Tensor to = allocate_like(from, wanted);
  copy_common(matrix, held, to, wanted);
  return to;
}

Tensor redistribute(const Tensor& mine, const Ownership& ownership, Layout from, Layout to, Extent extent,
                    Exchange& exchange, const std::string& node) {
  if (from == to) return mine;
  const auto held_by = [&](int rank) { return part_of(ownership, from, extent, rank); };
  const auto wanted_by = [&](int rank) { return part_of(ownership, to, extent, rank); };
  const int me = exchange.rank(), ranks = exchange.ranks();
  const Part held = held_by(me), wanted = wanted_by(me);
  require_part(mine, held, node.c_str());
  if (from.axis == Layout::Axis::whole) return cut(mine, held, wanted);

  const Tensor matrix = mine.reshaped({held.height(), held.width()});
  Tensor result = allocate_like(mine, wanted);
  std::vector<Tensor> outgoing(static_cast<std::size_t>(ranks)), incoming(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == me) continue;
    const Part sent = common(held, wanted_by(rank)), received = common(held_by(rank), wanted);
    if (sent.height() * sent.width() > 0)  // the whole of it as it is, for an all-gather
      outgoing[std::size_t(rank)] =
          sent.height() == held.height() && sent.width() == held.width() ? matrix : cut(matrix, held, sent);
    if (received.height() * received.width() > 0) incoming[std::size_t(rank)] = allocate_like(mine, received);
  }
  exchange.swap(node, outgoing, incoming);
  copy_common(matrix, held, result, wanted);
  for (int rank = 0; rank < ranks; ++rank)
    if (Tensor& part = incoming[std::size_t(rank)]; !part.empty())
      copy_common(part, common(held_by(rank), wanted), result, wanted);
  return result;
}

}  // namespace h3
