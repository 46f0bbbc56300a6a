// The row sum of kernels/numerics/row_sum.h on Hopper: a thread adds the terms of its columns over one run of
// 128 rows, eight at a time, the sums of the runs go through memory, and a launch for each further level adds
// those. Runs and columns are spread over blocks, which does not touch the order.
#pragma once

#include <initializer_list>

#include "kernels/cuda/device.h"
#include "kernels/cuda/row_index.h"
#include "kernels/cuda/vector.cuh"
#include "kernels/table_part.h"

namespace h3::cuda {

inline constexpr int kFanIn = 128, kGroup = 8;
inline constexpr float kNothing = -0.0f;  // -0 + x is x for every x: a term that is not there, a sum of none

__device__ inline float sum_of_group(const float (&t)[kGroup]) {
  return ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
}

// The tree of sum_of_group over terms that come one at a time: term i completes what it is the last of.
template <int kValues>
struct GroupTree {
  float pair[kValues], quad[kValues], half[kValues];

  __device__ void add(int i, const float (&term)[kValues], float (&sum)[kValues]) {
#pragma unroll
    for (int e = 0; e < kValues; ++e) {
      pair[e] = i % 2 == 0 ? term[e] : pair[e] + term[e];
      if (i % 4 == 1) quad[e] = pair[e];
      if (i % 4 == 3) quad[e] += pair[e];
      if (i == 3) half[e] = quad[e];
      if (i == 7) sum[e] += half[e] + quad[e];
    }
  }
};

// The runs of a sequence: of an index by segment, or of rows 0, 1, ... as they are (the pointers are null
// then).
struct Runs {
  std::int64_t rows, count, segments;
  const std::int64_t *by_segment = nullptr, *run_first = nullptr, *segment_run = nullptr;

  __device__ std::int64_t row(std::int64_t at) const { return by_segment ? by_segment[at] : at; }
  __device__ std::int64_t first(std::int64_t run) const { return run_first ? run_first[run] : run * kFanIn; }
  __device__ std::int64_t end(std::int64_t run) const {
    return run_first ? run_first[run + 1] : min((run + 1) * kFanIn, rows);
  }
};
Runs runs_of(std::int64_t rows);
Runs runs_of(const RowIndex& index);

// `Terms` walks rows in a run. Of V columns from `column` on:
//   Kept start(row, column)                      what stays the same over the run, from its first row
//   Loaded load(row, column)                     what is read of a row
//   void of(row, column, kept, loaded, term)     float term[kSums][V]; may write the row's own results
constexpr int kSumThreads = 128;

template <int V, class Terms>
__global__ void __launch_bounds__(kSumThreads)
    sum_runs(const Terms terms, const Runs runs, std::int64_t cols, float* partial) {
  // The last run first: where a launch before has read the same rows, those are the ones still in the cache.
  const std::int64_t run = gridDim.x - 1 - blockIdx.x,
                     column = (std::int64_t(blockIdx.y) * kSumThreads + threadIdx.x) * V;
  if (column >= cols) return;
  const std::int64_t first = runs.first(run), end = runs.end(run);
  const auto kept = terms.start(runs.row(first), column);
  float sum[Terms::kSums][V];
#pragma unroll
  for (int k = 0; k < Terms::kSums; ++k)
#pragma unroll
    for (int e = 0; e < V; ++e) sum[k][e] = kNothing;
  for (std::int64_t at = first; at < end; at += kGroup) {
    typename Terms::Loaded loaded[kGroup];
    GroupTree<V> tree[Terms::kSums];
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      if (at + i < end) loaded[i] = terms.load(runs.row(at + i), column);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      float term[Terms::kSums][V];
      if (at + i < end) {
        terms.of(runs.row(at + i), column, kept, loaded[i], term);
      } else {
#pragma unroll
        for (int k = 0; k < Terms::kSums; ++k)
#pragma unroll
          for (int e = 0; e < V; ++e) term[k][e] = kNothing;
      }
#pragma unroll
      for (int k = 0; k < Terms::kSums; ++k) tree[k].add(i, term[k], sum[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < Terms::kSums; ++k) {
    float* to = partial + (k * runs.count + run) * cols + column;
    if constexpr (V % 4 == 0) {
#pragma unroll
      for (int e = 0; e < V; e += 4)
        *reinterpret_cast<float4*>(to + e) = {sum[k][e], sum[k][e + 1], sum[k][e + 2], sum[k][e + 3]};
    } else {
      for (int e = 0; e < V; ++e) to[e] = sum[k][e];
    }
  }
}

// Where a sum goes: element `column` of row `segment` of `out`, or of its only row where all segments are one
// sum.
struct SumTarget {
  std::byte* out;
  std::int64_t row_stride;  // elements
  bool of_all_segments = false;
};

inline SumTarget target_of(kernels::TablePart& part, std::int64_t cols) {
  return {part.table.bytes() + std::size_t(part.offset(0, cols)) * size_of(part.table.dtype()),
          part.table.cols()};
}
inline SumTarget over_all(Tensor& sum) { return {sum.bytes(), 0, true}; }

// The sums of `runs`, in the order in which sum_runs left them in `partial`, rounded once into their targets;
// what is in `partial` is used up. Queued on the stream after sum_runs.
void finish_sums(const char* row, const Runs& runs, std::int64_t cols, float* partial, DType dtype,
                 std::initializer_list<SumTarget> targets, Stream stream);

template <int V, class Terms>
void launch_sum_runs(const char* row, const Terms& terms, const Runs& runs, std::int64_t cols, float* partial,
                     Stream stream) {
  const std::int64_t blocks = (cols + kSumThreads * V - 1) / (kSumThreads * V);
  require(runs.count < (std::int64_t(1) << 31) && blocks < 65536,
          "{}: {} runs of {} columns, too large for one launch", row, runs.count, cols);
  sum_runs<V>
      <<<dim3(unsigned(runs.count), unsigned(blocks)), kSumThreads, 0, stream>>>(terms, runs, cols, partial);
  check_launch(row);
}

// The rows of a tensor themselves as terms: of all rows, into `sum` (cols), or of the rows of each value of
// an index, into that row of a table's part. Workspace: runs * cols elements.
void sum_all_rows(const char* row, const Tensor& terms, Tensor& sum, Tensor& workspace, Stream stream);
void sum_indexed_rows(const char* row, const Tensor& terms, const RowIndex& index, kernels::TablePart& sums,
                      Tensor& workspace, Stream stream);

}  // namespace h3::cuda
