#include "kernels/ode_step.h"

#include "kernels/checks.h"
#include "kernels/numerics/rows.h"
#include "model/parallel.h"

namespace h3::kernels {
namespace {

constexpr const char* kRow = "ode_step";

// One value for all rows, or one per row.
class PerRow {
 public:
  PerRow(const char* argument, const Tensor& tensor, std::int64_t rows) : tensor_(tensor) {
    require_dtype(kRow, argument, tensor, {DType::fp32});
    require(tensor.elements() == 1 || tensor.elements() == rows, "{}: {} has {} elements, expected 1 or {}",
            kRow, argument, tensor.elements(), rows);
    require(tensor.device() == Device::cpu, "{}: {} lies on the GPU, expected the CPU", kRow, argument);
  }
  float operator[](std::int64_t row) const {
    return tensor_.data<float>()[tensor_.elements() == 1 ? 0 : row];
  }

 private:
  const Tensor& tensor_;
};

}  // namespace

std::vector<StepFactors> step_factors(const Tensor& timestep, const Tensor& sigma, const Tensor& sigma_next,
                                      std::int64_t rows) {
  const PerRow t("timestep", timestep, rows), from("sigma", sigma, rows), to("sigma_next", sigma_next, rows);
  const bool uniform = timestep.elements() == 1 && sigma.elements() == 1 && sigma_next.elements() == 1;
  std::vector<StepFactors> factors(std::size_t(uniform ? 1 : rows));
  for (std::int64_t s = 0; s < std::int64_t(factors.size()); ++s) {
    require(t[s] >= 0 && t[s] <= 1, "{}: timestep of row {} is {}, expected 0..1", kRow, s, t[s]);
    require(from[s] > 0 && from[s] <= 1, "{}: sigma of row {} is {}, expected above 0, at most 1", kRow, s,
            from[s]);
    require(to[s] >= 0 && to[s] <= from[s], "{}: sigma_next of row {} is {}, expected 0..{}", kRow, s, to[s],
            from[s]);
    const float r = to[s] / from[s];
    factors[std::size_t(s)] = {1.0f - t[s], r, 1.0f - r};
  }
  return factors;
}

void ode_step(const Tensor& x, const Tensor& velocity, const Tensor& timestep, const Tensor& sigma,
              const Tensor& sigma_next, Tensor& next) {
  require_dtype(kRow, "x", x, {DType::fp32, DType::bf16, DType::fp16});
  require_tensor(kRow, "velocity", velocity, x.dtype(), x.shape());
  require_tensor(kRow, "next", next, x.dtype(), x.shape());
  const std::int64_t rows = x.rows(), cols = x.cols();
  const std::vector<StepFactors> factors = step_factors(timestep, sigma, sigma_next, rows);

  parallel_for(0, rows, 256, [&](std::int64_t first, std::int64_t last) {
    std::vector<float> sample(static_cast<std::size_t>(cols)), v(sample.size());
    for (std::int64_t row = first; row < last; ++row) {
      numerics::widen(x, row * cols, cols, sample.data());
      numerics::widen(velocity, row * cols, cols, v.data());
      const auto [s, r, rest] = factors[factors.size() == 1 ? 0 : std::size_t(row)];
      for (std::int64_t c = 0; c < cols; ++c) {
        const float clean = sample[c] + s * v[c];
        sample[c] = r * sample[c] + rest * clean;
      }
      numerics::narrow(sample.data(), row * cols, cols, next);
    }
  });
}

}  // namespace h3::kernels
