#ifdef H3_HAVE_CUDA
#include "conformance/rows/on_cuda.h"

#include <algorithm>
#include <cstring>

namespace h3 {
namespace {

constexpr std::int64_t kBand = 4096;  // bytes on each side of an output
constexpr std::byte kGuard{0x5A}, kPoison{0xFF};

// Runs into the middle of a guarded piece of device memory and copies it back into y.
void run_guarded(const RowProblem& problem, const std::vector<Tensor>& operands, Tensor& y) {
  const auto inside = std::int64_t(y.size_bytes());
  Tensor host(DType::bf16, {(inside + 2 * kBand + 1) / 2});
  std::fill_n(host.bytes(), host.size_bytes(), kGuard);
  std::fill_n(host.bytes() + kBand, inside, kPoison);
  Tensor all = cuda::upload(host);
  auto owner = std::make_shared<Tensor>(all);
  Tensor middle(y.dtype(), y.shape(), std::shared_ptr<std::byte>(owner, all.bytes() + kBand), Device::cuda);
  problem.run_on_cuda(operands, middle);
  cuda::synchronize();
  const Tensor after = cuda::download(all);
  for (std::size_t i = 0; i < after.size_bytes(); ++i) {
    const std::int64_t at = std::int64_t(i) - kBand;
    require((at >= 0 && at < inside) || after.bytes()[i] == kGuard,
            "device byte {} of an output of {} was overwritten", at, inside);
  }
  std::memcpy(y.bytes(), after.bytes() + kBand, y.size_bytes());
}

}  // namespace

RowProblem on_cuda(const RowProblem& problem) {
  require(bool(problem.run_on_cuda), "a row without its strict kernel");
  RowProblem strict = problem;
  strict.run = [problem](const std::vector<Tensor>& operands, Tensor& y) {
    run_guarded(problem, operands, y);
  };
  return strict;
}

std::vector<RowCase> on_cuda(std::span<const RowCase> rows) {
  std::vector<RowCase> strict(rows.begin(), rows.end());
  for (RowCase& row : strict) row.engine = Engine::cuda;
  return strict;
}

testing::AssertionResult equals_the_twin(const RowProblem& problem) {
  Tensor twin(problem.dtype, problem.golden.shape()), strict(problem.dtype, problem.golden.shape());
  problem.run(problem.operands, twin);
  on_cuda(problem).run(problem.operands, strict);
  return bitwise_equal(twin, strict);
}

testing::AssertionResult is_refused_on_cuda(const BadInput& bad) {
  Tensor strict = cuda::allocate(bad.dtype, bad.shape);
  return is_refused({bad.name, bad.message,
                     [&](Tensor& y) {
                       try {
                         bad.run(strict);
                       } catch (...) {
                         cuda::synchronize();
                         std::memcpy(y.bytes(), cuda::download(strict).bytes(), y.size_bytes());
                         throw;
                       }
                     },
                     bad.dtype, bad.shape});
}

}  // namespace h3
#endif
