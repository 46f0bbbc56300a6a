#include <algorithm>

#include "kernels/cuda/row_sum.cuh"

namespace h3::cuda {
namespace {

constexpr int kThreads = 128, kMaxTargets = 3;

struct Targets {
  SumTarget target[kMaxTargets];
};

// Terms at first, first + step, ... before `end`, in groups of eight, whose loads do not wait for each other.
__device__ float sum_in_groups(const float* terms, std::int64_t cols, std::int64_t first, std::int64_t end,
                               std::int64_t step) {
  float sum = kNothing;
  for (std::int64_t start = first; start < end; start += kGroup * step) {
    float of_group[kGroup];
    if (start + (kGroup - 1) * step < end) {
#pragma unroll
      for (int i = 0; i < kGroup; ++i) of_group[i] = terms[(start + i * step) * cols];
    } else {
#pragma unroll
      for (int i = 0; i < kGroup; ++i)
        of_group[i] = start + i * step < end ? terms[(start + i * step) * cols] : kNothing;
    }
    sum += sum_of_group(of_group);
  }
  return sum;
}

// The runs of a target's segment.
struct Range {
  std::int64_t first, end;
};
__device__ Range runs_of_segment(const Runs& runs, bool all, std::int64_t segment) {
  if (all) return {0, runs.count};
  return {runs.segment_run[segment], runs.segment_run[segment + 1]};
}
__device__ bool is_one_sum(const Runs& runs, const SumTarget& target) {
  return target.of_all_segments || runs.segment_run == nullptr;
}

// One level up: of every 128 terms `step` runs apart the sum, in the place of the first.
__global__ void __launch_bounds__(kThreads)
    add_level(const Runs runs, std::int64_t cols, float* partial, const Targets targets, std::int64_t step) {
  const std::int64_t column = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  const bool all = is_one_sum(runs, targets.target[blockIdx.z]);
  if (column >= cols) return;
  float* terms = partial + std::int64_t(blockIdx.z) * runs.count * cols + column;
  const std::int64_t apart = step * kFanIn;
  for (std::int64_t segment = 0; segment < (all ? 1 : runs.segments); ++segment) {
    const Range range = runs_of_segment(runs, all, segment);
    for (std::int64_t at = range.first + blockIdx.y * apart; at < range.end; at += gridDim.y * apart)
      terms[at * cols] = sum_in_groups(terms, cols, at, min(at + apart, range.end), step);
  }
}

// The last level, of terms `step` runs apart, rounded into the targets; no terms give +0.
template <class T>
__global__ void __launch_bounds__(kThreads) finish(const Runs runs, std::int64_t cols, const float* partial,
                                                   const Targets targets, std::int64_t step) {
  const std::int64_t column = std::int64_t(blockIdx.x) * kThreads + threadIdx.x;
  const SumTarget target = targets.target[blockIdx.z];
  if (column >= cols || (target.of_all_segments && blockIdx.y > 0)) return;
  const float* terms = partial + std::int64_t(blockIdx.z) * runs.count * cols + column;
  const bool all = is_one_sum(runs, target);
  for (std::int64_t segment = blockIdx.y; segment < (all ? 1 : runs.segments); segment += gridDim.y) {
    const Range range = runs_of_segment(runs, all, segment);
    const float sum = range.first == range.end ? 0 : sum_in_groups(terms, cols, range.first, range.end, step);
    reinterpret_cast<T*>(target.out)[segment * target.row_stride + column] = narrow<T>(sum);
  }
}

template <class T, int V>
struct RowItself {
  static constexpr int kSums = 1;
  using Vec = Vector<T, V>;
  struct Nothing {};
  using Loaded = typename Vec::Bits;

  const T* rows;
  std::int64_t cols;

  __device__ Nothing start(std::int64_t, std::int64_t) const { return {}; }
  __device__ Loaded load(std::int64_t row, std::int64_t column) const {
    return Vec::load_bits(rows + row * cols + column);
  }
  __device__ void of(std::int64_t, std::int64_t, Nothing, const Loaded& loaded,
                     float (&term)[kSums][V]) const {
    const Vec value = Vec::of(loaded);
#pragma unroll
    for (int e = 0; e < V; ++e) term[0][e] = value.value[e];
  }
};

template <class Run>
void by_dtype(DType dtype, const Run& run) {
  if (dtype == DType::bf16)
    run(__nv_bfloat16{});
  else if (dtype == DType::fp16)
    run(__half{});
  else
    run(float{});
}

void sum_rows(const char* row, const Tensor& terms, const Runs& runs, const SumTarget& target,
              Tensor& workspace, Stream stream) {
  const std::int64_t cols = terms.cols();
  float* partial = Workspace(row, workspace, runs.count * cols).take(runs.count * cols);
  by_dtype(terms.dtype(), [&]<class T>(T) {
    const auto* words = reinterpret_cast<const T*>(terms.bytes());
    if (cols % 4 == 0)
      launch_sum_runs<4>(row, RowItself<T, 4>{words, cols}, runs, cols, partial, stream);
    else
      launch_sum_runs<1>(row, RowItself<T, 1>{words, cols}, runs, cols, partial, stream);
  });
  finish_sums(row, runs, cols, partial, terms.dtype(), {target}, stream);
}

}  // namespace

Runs runs_of(std::int64_t rows) { return {rows, (rows + kFanIn - 1) / kFanIn, 1}; }

Runs runs_of(const RowIndex& index) {
  return {index.rows(),      index.runs(),       index.limit(), index.rows_by_segment(),
          index.run_first(), index.segment_run()};
}

void finish_sums(const char* row, const Runs& runs, std::int64_t cols, float* partial, DType dtype,
                 std::initializer_list<SumTarget> targets, Stream stream) {
  require(targets.size() <= kMaxTargets, "{}: {} sums at once, at most {}", row, targets.size(), kMaxTargets);
  require(runs.count <= std::int64_t(kFanIn) * kFanIn * kFanIn, "{}: {} runs of rows, expected at most 128^3",
          row, runs.count);
  Targets all{};
  std::copy(targets.begin(), targets.end(), all.target);
  const auto columns = unsigned((cols + kThreads - 1) / kThreads), sums = unsigned(targets.size());
  std::int64_t step = 1;
  for (; step * kFanIn < runs.count; step *= kFanIn) {
    const std::int64_t terms = (runs.count + step * kFanIn - 1) / (step * kFanIn);
    add_level<<<dim3(columns, unsigned(std::min<std::int64_t>(terms, 65535)), sums), kThreads, 0, stream>>>(
        runs, cols, partial, all, step);
    check_launch(row);
  }
  const dim3 grid(columns, unsigned(std::min<std::int64_t>(runs.segments, 65535)), sums);
  by_dtype(dtype,
           [&]<class T>(T) { finish<T><<<grid, kThreads, 0, stream>>>(runs, cols, partial, all, step); });
  check_launch(row);
}

void sum_all_rows(const char* row, const Tensor& terms, Tensor& sum, Tensor& workspace, Stream stream) {
  sum_rows(row, terms, runs_of(terms.rows()), over_all(sum), workspace, stream);
}

void sum_indexed_rows(const char* row, const Tensor& terms, const RowIndex& index, kernels::TablePart& sums,
                      Tensor& workspace, Stream stream) {
  sum_rows(row, terms, runs_of(index), target_of(sums, terms.cols()), workspace, stream);
}

}  // namespace h3::cuda
