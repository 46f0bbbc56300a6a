// The inputs each row is swept over, and its two sides: the strict row on an engine, and its golden.
#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "golden/gate_residual.h"
#include "golden/linear.h"
#include "golden/mm_rope.h"
#include "golden/ode_step.h"
#include "golden/qk_norm.h"
#include "golden/rms_norm.h"
#include "golden/rotary_tables.h"
#include "golden/swiglu.h"
#include "golden/timestep_sinusoid.h"
#include "harness/execution/execution.h"
#include "harness/replay/ulp.h"
#include "kernels/gate_residual.h"
#include "kernels/linear.h"
#include "kernels/mm_rope.h"
#include "kernels/ode_step.h"
#include "kernels/qk_norm.h"
#include "kernels/rms_norm.h"
#include "kernels/swiglu.h"
#include "kernels/timestep_sinusoid.h"
#include "model/synthetic.h"

#ifdef H3_HAVE_CUDA
#include "kernels/cuda/device.h"
#define H3_STRICT_CUDA(...) [=](Tensor& y) { __VA_ARGS__; }
#else
#define H3_STRICT_CUDA(...) nullptr
#endif

namespace h3 {
namespace {

using Run = std::function<void(Tensor& y)>;

struct Problem {
  Tensor golden;                                             // FP32
  Tensor y;                                                  // poisoned, of the type that is asked about
  Run cpu, cuda;                                             // y on the CPU, y on the GPU
  std::function<std::string(std::int64_t index)> inputs_of;  // of one result, for a person
};

constexpr float kEps = 1e-5f;

// Half of the rows near normal; in the other half every element is also scaled by a power of two of its own.
Tensor half_wide(std::uint64_t seed, const std::string& name, const Shape& shape, DType dtype) {
  const int range = dtype == DType::fp16 ? 6 : 24;
  Tensor values = synthetic_activation(seed, name, shape, DType::fp32);
  const std::uint64_t key = synthetic_key(seed, name + ".exponent");
  const std::int64_t count = values.elements();
  for (std::int64_t i = shape[0] / 2 * (count / shape[0]); i < count; ++i) {
    const std::uint64_t drawn = mix64(key + std::uint64_t(i) * kSyntheticStep);
    float& value = values.data<float>()[i];
    value = std::ldexp(value, int(drawn % std::uint64_t(2 * range + 1)) - range);
  }
  return values.to(dtype);
}

// Norm weights and table parts: around 1 and around 0.
Tensor around(float mean, std::uint64_t seed, const std::string& name, const Shape& shape, DType dtype) {
  Tensor values = synthetic_activation(seed, name, shape, DType::fp32, 0.25f);
  for (float& value : values.values<float>()) value += mean;
  return values.to(dtype);
}

Tensor cycling_index(std::int64_t rows, std::int64_t table_rows) {
  Tensor index(DType::i64, {rows});
  for (std::int64_t s = 0; s < rows; ++s) index.data<std::int64_t>()[s] = s % table_rows;
  return index;
}

std::string row_and_column(const Tensor& x, std::int64_t index, std::int64_t cols) {
  const std::int64_t row = index / cols;
  return fmt::format("row {} ({}), column {}", row, row < x.shape()[0] / 2 ? "normal" : "wide exponents",
                     index % cols);
}

Problem swiglu(DType dtype, std::uint64_t) {
  constexpr std::int64_t kWords = 65536;
  constexpr float kValues[] = {1, 0x1.fep0f, -0x1.92p1f, 0x1p-40f};
  Tensor x(dtype, {std::int64_t(std::size(kValues)), 2 * kWords});
  for (std::int64_t s = 0; s < x.rows(); ++s)
    for (std::int64_t i = 0; i < kWords; ++i) {
      Bf16* row = x.data<Bf16>() + s * x.cols();
      row[i] = to_bf16(kValues[s]);
      row[kWords + i] = Bf16(i);
    }
  return {golden::swiglu(x), Tensor(dtype, {x.rows(), kWords}), [=](Tensor& y) { kernels::swiglu(x, y); },
          H3_STRICT_CUDA(kernels::cuda::swiglu(cuda::upload(x), y, nullptr)),
          [=](std::int64_t index) {
            const std::int64_t at = index / kWords * x.cols() + index % kWords;
            return fmt::format("gate {} (0x{:04x}), value {}", x.at(at + kWords), index % kWords, x.at(at));
          }};
}

Problem gate_residual(DType dtype, std::uint64_t seed) {
  const std::int64_t rows = 64, cols = 5376, table_rows = 6;
  const Tensor x = half_wide(seed, "ulp.gate_residual.x", {rows, cols}, dtype),
               branch = half_wide(seed, "ulp.gate_residual.branch", {rows, cols}, dtype),
               table = around(0, seed, "ulp.gate_residual.gate", {table_rows, cols}, dtype),
               index = cycling_index(rows, table_rows);
  return {golden::gate_residual(x, branch, {table.to(DType::fp32), 0}, index), Tensor(dtype, {rows, cols}),
          [=](Tensor& y) {
            kernels::gate_residual(x, branch, {table, 0}, index, y);
          },
          H3_STRICT_CUDA(kernels::cuda::gate_residual(cuda::upload(x), cuda::upload(branch),
                                                      {cuda::upload(table), 0},
                                                      cuda::RowIndex(index, table_rows), y, nullptr)),
          [=](std::int64_t i) {
            return fmt::format("x {}, branch {}, gate {}", x.at(i), branch.at(i),
                               table.at(i / cols % table_rows * cols + i % cols));
          }};
}

Problem mm_rope(DType dtype, std::uint64_t seed) {
  const std::int64_t rows = 128, heads = 8, head_dim = 128;
  const Tensor x = half_wide(seed, "ulp.mm_rope.x", {rows, heads, head_dim}, dtype);
  Tensor positions(DType::fp64, {rows, 3});
  for (std::int64_t s = 0; s < rows; ++s)
    for (int axis = 0; axis < 3; ++axis) positions.data<double>()[3 * s + axis] = double(s * (axis + 1) % 97);
  const auto tables = golden::rotary_tables(positions, golden::rotary_frequencies());
  const Tensor cos = tables.cos, sin = tables.sin;
  return {golden::mm_rope(x, cos, sin), Tensor(dtype, x.shape()),
          [=](Tensor& y) { kernels::mm_rope(x, cos, sin, y); },
          H3_STRICT_CUDA(
              kernels::cuda::mm_rope(cuda::upload(x), cuda::upload(cos), cuda::upload(sin), y, nullptr)),
          [=](std::int64_t i) {
            const std::int64_t channel = i % head_dim, half = cos.cols() / 2, row = i / (heads * head_dim);
            if (channel >= 2 * half) return fmt::format("x {}, not rotated", x.at(i));
            return fmt::format("x {} and its partner {}, cos {}, sin {}", x.at(i),
                               x.at(channel < half ? i + half : i - half), cos.at(row * cos.cols() + channel),
                               sin.at(row * sin.cols() + channel));
          }};
}

Problem ode_step(DType dtype, std::uint64_t seed) {
  const std::int64_t rows = 50, cols = 4096;
  const Tensor x = half_wide(seed, "ulp.ode_step.x", {rows, cols}, dtype),
               velocity = half_wide(seed, "ulp.ode_step.velocity", {rows, cols}, dtype);
  Tensor timestep(DType::fp32, {rows}), sigma(DType::fp32, {rows}), next(DType::fp32, {rows});
  Tensor golden(DType::fp32, x.shape());
  for (std::int64_t s = 0; s < rows; ++s) {
    const float t = float(s) / float(rows), after = float(s + 1) / float(rows);
    timestep.data<float>()[s] = t;
    sigma.data<float>()[s] = 1 - t;
    next.data<float>()[s] = s + 1 == rows ? 0 : 1 - after;
    const Tensor row = golden::ode_step(x.row_range(s, 1).to(DType::fp32),
                                        velocity.row_range(s, 1).to(DType::fp32), t, sigma.at(s), next.at(s));
    std::copy_n(row.data<float>(), cols, golden.data<float>() + s * cols);
  }
  return {golden, Tensor(dtype, x.shape()),
          [=](Tensor& y) { kernels::ode_step(x, velocity, timestep, sigma, next, y); },
          H3_STRICT_CUDA(kernels::cuda::ode_step(cuda::upload(x), cuda::upload(velocity), timestep, sigma,
                                                 next, y, nullptr)),
          [=](std::int64_t i) {
            return fmt::format("x {}, velocity {}, step {} of {}", x.at(i), velocity.at(i), i / cols, rows);
          }};
}

Problem timestep_sinusoid(DType dtype, std::uint64_t) {
  constexpr std::int64_t kFeatures = 256, kGrid = 16384;
  const std::int64_t one = dtype == DType::bf16 ? 0x3f80 : dtype == DType::fp16 ? 0x3c00 : kGrid;
  Tensor t(dtype, {one + 1});
  for (std::int64_t i = 0; i <= one; ++i) {
    if (dtype == DType::bf16) t.data<Bf16>()[i] = Bf16(i);
    if (dtype == DType::fp16) t.data<Fp16>()[i] = Fp16(i);
    if (dtype == DType::fp32) t.data<float>()[i] = float(i) / float(kGrid);
  }
  return {golden::timestep_sinusoid(t.to(DType::fp32), kFeatures), Tensor(DType::fp32, {one + 1, kFeatures}),
          [=](Tensor& y) { kernels::timestep_sinusoid(t, y); },
          H3_STRICT_CUDA(kernels::cuda::timestep_sinusoid(t, y, nullptr)),
          [=](std::int64_t i) {
            const std::int64_t feature = i % kFeatures, half = kFeatures / 2;
            return fmt::format("t {}, {} of frequency {}", t.at(i / kFeatures),
                               feature < half ? "cosine" : "sine", feature % half);
          }};
}

Problem rms_norm(DType dtype, std::uint64_t seed) {
  const std::int64_t rows = 64, cols = 5376;
  const Tensor x = half_wide(seed, "ulp.rms_norm.x", {rows, cols}, dtype),
               weight = around(1, seed, "ulp.rms_norm.weight", {cols}, dtype);
  return {golden::rms_norm(x, weight, kEps), Tensor(dtype, x.shape()),
          [=](Tensor& y) { kernels::rms_norm(x, weight, kEps, y); },
          H3_STRICT_CUDA(kernels::cuda::rms_norm(cuda::upload(x), cuda::upload(weight), kEps, y, nullptr)),
          [=](std::int64_t i) {
            return fmt::format("{}, x {}, weight {}", row_and_column(x, i, cols), x.at(i),
                               weight.at(i % cols));
          }};
}

Problem modulated_rms_norm(DType dtype, std::uint64_t seed) {
  const std::int64_t rows = 64, cols = 5376, table_rows = 6;
  const Tensor x = half_wide(seed, "ulp.modulated_rms_norm.x", {rows, cols}, dtype),
               weight = around(1, seed, "ulp.modulated_rms_norm.weight", {cols}, dtype),
               table = around(0, seed, "ulp.modulated_rms_norm.table", {table_rows, 2 * cols}, dtype),
               index = cycling_index(rows, table_rows), wide_table = table.to(DType::fp32);
  return {
    golden::modulated_rms_norm(x, weight, kEps, {wide_table, 0}, {wide_table, 1}, index),
        Tensor(dtype, x.shape()),
        [=](Tensor& y) {
          kernels::modulated_rms_norm(x, weight, kEps, {table, 0}, {table, 1}, index, y);
        },
        H3_STRICT_CUDA(const Tensor parts = cuda::upload(table); kernels::cuda::modulated_rms_norm(
                           cuda::upload(x), cuda::upload(weight), kEps, {parts, 0}, {parts, 1},
                           cuda::RowIndex(index, table_rows), y, nullptr)),
        [=](std::int64_t i) {
          const std::int64_t entry = i / cols % table_rows * 2 * cols + i % cols;
          return fmt::format("{}, x {}, weight {}, shift {}, scale {}", row_and_column(x, i, cols), x.at(i),
                             weight.at(i % cols), table.at(entry), table.at(entry + cols));
        }
  };
}

Problem qk_norm(DType dtype, std::uint64_t seed) {
  const std::int64_t rows = 64, heads = 56, head_dim = 128;
  const Tensor x = half_wide(seed, "ulp.qk_norm.x", {rows, heads, head_dim}, dtype),
               weight = around(1, seed, "ulp.qk_norm.weight", {head_dim}, dtype);
  return {golden::qk_norm(x, weight, kEps), Tensor(dtype, x.shape()),
          [=](Tensor& y) { kernels::qk_norm(x, weight, kEps, y); },
          H3_STRICT_CUDA(kernels::cuda::qk_norm(cuda::upload(x), cuda::upload(weight), kEps, y, nullptr)),
          [=](std::int64_t i) {
            return fmt::format("{}, x {}, weight {}", row_and_column(x, i, heads * head_dim), x.at(i),
                               weight.at(i % head_dim));
          }};
}

Problem linear(DType dtype, std::uint64_t seed) {  // of y; the operands are bf16
  const std::int64_t rows = 16, depth = 5376, outputs = 256;
  const Tensor x = half_wide(seed, "ulp.linear.x", {rows, depth}, DType::bf16),
               weight =
                   synthetic_activation(seed, "ulp.linear.weight", {outputs, depth}, DType::bf16, 0x1p-6f);
  return {golden::linear(x, weight, nullptr), Tensor(dtype, {rows, outputs}),
          [=](Tensor& y) { kernels::linear(x, weight, nullptr, y); },
          H3_STRICT_CUDA(kernels::cuda::linear(cuda::upload(x), cuda::upload(weight), nullptr, y)),
          [=](std::int64_t i) { return row_and_column(x, i, outputs); }};
}

struct Sweep {
  UlpRow row;
  Problem (*problem)(DType, std::uint64_t seed);
};

const std::vector<Sweep>& sweeps() {
  using enum DType;
  static const std::vector<Sweep> all = {
      {{"swiglu",
        "h3_swiglu",
        {bf16},
        "every BF16 gate, NaN and Inf too, with the values 1, 1.992, -3.141, 2^-40"},
       swiglu},
      {{"gate_residual",
        "adaln_gate_residual",
        {bf16},
        "x and branch 64 x 5376, half the rows normal, half with exponents spread by 2^+-24; gates around 0"},
       gate_residual},
      {{"mm_rope",
        "h3_mm_rope_3axis_partial",
        {bf16},
        "x 128 x 8 heads, half the rows normal, half with spread exponents; tables of 128 positions"},
       mm_rope},
      {{"ode_step",
        "h3_ode_step",
        {fp32, bf16, fp16},
        "x and velocity 50 x 4096, half normal, half with spread exponents; row s is step s of 50"},
       ode_step},
      {{"timestep_sinusoid",
        "timestep_sinusoid_h3",
        {bf16, fp16, fp32},
        "every t of the type in [0, 1] (fp32: 16,385 even ones), 256 FP32 features each"},
       timestep_sinusoid},
      {{"rms_norm",
        "h3_rmsnorm",
        {bf16, fp16, fp32},
        "x 64 x 5376, half the rows normal, half with spread exponents; weights around 1"},
       rms_norm},
      {{"modulated_rms_norm",
        "h3_rmsnorm",
        {bf16, fp16, fp32},
        "as rms_norm, with a table of six rows of shifts and scales around 0"},
       modulated_rms_norm},
      {{"qk_norm",
        "h3_qk_rmsnorm_d128",
        {bf16, fp16, fp32},
        "x 64 x 56 heads, half the rows normal, half with spread exponents; weights around 1"},
       qk_norm},
      {{"linear",
        "h3_qkv_gemm",
        {bf16, fp32},
        "x 16 x 5376 BF16, half the rows normal, half with spread exponents; 256 outputs (fp32: before "
        "rounding)"},
       linear},
  };
  return all;
}

Tensor run_on(const std::string& engine, const Problem& problem) {
  Tensor y = problem.y;
  if (engine == "cpu") {
    problem.cpu(y);
    return y;
  }
  require(engine == "cuda", "engine '{}': expected cpu or cuda", engine);
  cuda_device_name();  // an Error where strict kernels cannot run
#ifdef H3_HAVE_CUDA
  Tensor on_gpu = cuda::allocate(y.dtype(), y.shape());
  problem.cuda(on_gpu);
  cuda::synchronize();
  y = cuda::download(on_gpu);
#endif
  return y;
}

}  // namespace

const std::vector<UlpRow>& ulp_rows() {
  static const std::vector<UlpRow> rows = [] {
    std::vector<UlpRow> named;
    for (const Sweep& sweep : sweeps()) named.push_back(sweep.row);
    return named;
  }();
  return rows;
}

UlpReport ulp_sweep(const UlpRequest& request) {
  for (const Sweep& sweep : sweeps()) {
    if (sweep.row.name != request.row) continue;
    for (const DType dtype : sweep.row.dtypes) {
      if (!request.dtype.empty() && request.dtype != name_of(dtype)) continue;
      const Problem problem = sweep.problem(dtype, request.seed);
      const Tensor candidate = run_on(request.engine, problem);
      UlpReport report{request, sweep.row, dtype, ulp_histogram(problem.golden, candidate), {}};
      report.worst = place_in(problem.golden, candidate, report.histogram.worst_index);
      if (report.worst.index >= 0) report.worst.inputs = problem.inputs_of(report.worst.index);
      return report;
    }
    std::string known;
    for (const DType dtype : sweep.row.dtypes)
      known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(dtype));
    fail("row {}: dtype '{}', expected {}", request.row, request.dtype, known);
  }
  fail("row '{}' has no sweep (--list names those that have)", request.row);
}

}  // namespace h3
