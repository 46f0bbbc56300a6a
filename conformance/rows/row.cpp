#include "conformance/rows/row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "harness/power/power.h"
#ifdef H3_HAVE_CUDA
#include "kernels/cuda/device.h"
#endif
#include "model/parallel.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;
using Rows = std::vector<std::int64_t>;

std::int64_t row_count(const RowProblem& problem) { return problem.golden.shape()[0]; }

Tensor answer(const RowProblem& problem) {
  Tensor y(problem.dtype, problem.golden.shape());
  problem.run(problem.operands, y);
  return y;
}

// The answer for these rows alone, against the same rows of the whole answer.
AssertionResult agrees_on(const RowProblem& problem, const Tensor& whole, const Rows& chosen) {
  std::vector<Tensor> operands;
  for (const Tensor& operand : problem.operands) operands.push_back(rows_of_tensor(operand, chosen));
  Shape shape = problem.golden.shape();
  shape[0] = std::int64_t(chosen.size());
  Tensor y(problem.dtype, shape);
  problem.run(operands, y);
  return bitwise_equal(rows_of_tensor(whole, chosen), y);
}

const char* name_of(Engine engine) {
  switch (engine) {
    case Engine::cpu:
      return "cpu";
    case Engine::cuda:
      return "cuda";
  }
  return "?";
}

}  // namespace

std::string name_of(const RowCase& row) {
  return fmt::format("{}_{}x{}_{}_s{}_{}", row.row, row.rows, row.cols, name_of(row.dtype), row.seed,
                     name_of(row.engine));
}

void PrintTo(const RowCase& row, std::ostream* out) { *out << name_of(row); }
void PrintTo(const BadInput& bad, std::ostream* out) { *out << bad.name; }

AssertionResult matches_golden(const RowProblem& problem) {
  const Tensor y = answer(problem);
  if (problem.bound) return within(*problem.bound, problem.golden, y);
  const bool same_type = problem.golden.dtype() == problem.dtype;
  return bitwise_equal(same_type ? problem.golden : problem.golden.to(problem.dtype), y);
}

AssertionResult repeats_bitwise(const RowProblem& problem) {
  const Tensor first = answer(problem);
  AssertionResult result = bitwise_equal(first, answer(problem));
  const int threads = thread_count();
  for (const int count : {1, threads + 3}) {
    set_thread_count(count);
    if (result) result = bitwise_equal(first, answer(problem));
  }
  set_thread_count(threads);
  return result;
}

AssertionResult rows_alone_equal_rows_in_a_batch(const RowProblem& problem) {
  const Tensor whole = answer(problem);
  const std::int64_t rows = row_count(problem);
  for (const Rows& chosen : {Rows{0}, Rows{rows / 2}, Rows{rows - 1}, Rows{rows - 1, 0, rows / 3}})
    if (auto result = agrees_on(problem, whole, chosen); !result) return result << "\nrow " << chosen[0];
  return AssertionSuccess();
}

AssertionResult follows_a_row_permutation(const RowProblem& problem) {
  Rows order(static_cast<std::size_t>(row_count(problem)));
  std::iota(order.begin(), order.end(), 0);
  std::reverse(order.begin(), order.end());
  std::rotate(order.begin(), order.begin() + std::ptrdiff_t(order.size() / 3), order.end());
  return agrees_on(problem, answer(problem), order);
}

AssertionResult stays_inside_its_output(const RowProblem& problem) {
  GuardedOutput y(problem.dtype, problem.golden.shape());
  problem.run(problem.operands, y.tensor());
  if (auto result = y.nothing_written_outside(); !result) return result;
  return problem.dtype == DType::i64 ? AssertionSuccess() : y.everything_written_inside();
}

AssertionResult bound_has_power(const RowProblem& problem) {
  if (!problem.bound) return AssertionSuccess() << "bit for bit";
  const Power power = power_of(*problem.bound, problem.golden, problem.dtype);
  testing::Test::RecordProperty("power", power.summary());
  return AssertionSuccess() << power.summary();
}

AssertionResult a_nan_is_seen(const RowProblem& problem, bool by_row) {
  RowProblem poisoned = problem;
  Tensor& operand = poisoned.operands[0];
  operand = operand.clone();
  const Tensor nan = filled(operand.dtype(), {1}, std::nan(""));
  std::memcpy(operand.bytes(), nan.bytes(), nan.size_bytes());
  const Tensor clean = answer(problem), y = answer(poisoned);
  const std::int64_t own = by_row ? y.row_range(0, 1).elements() : y.elements();
  bool seen = false;
  for (std::int64_t i = 0; i < own; ++i) seen = seen || std::isnan(y.at(i));
  if (!seen) return AssertionFailure() << "a NaN in the first operand leaves no NaN in the answer";
  const std::int64_t others = row_count(problem) - 1;
  if (!by_row || others == 0) return AssertionSuccess();
  return bitwise_equal(clean.row_range(1, others), y.row_range(1, others));
}

Bound after_roundings(double roundings, DType dtype) {
  const double one = dtype == DType::bf16 ? 0x1p-9 : dtype == DType::fp16 ? 0x1p-12 : 0x1p-25;
  return {.relative_l2 = std::sqrt(roundings) * one};
}

Bound at_most_roundings(int roundings, DType dtype) {
  return {.relative_l2 = 2 * roundings * after_roundings(1, dtype).relative_l2.value()};
}

AssertionResult is_refused(const BadInput& bad) {
  Tensor y(bad.dtype, bad.shape);
  const Tensor untouched = y.clone();
  try {
    bad.run(y);
  } catch (const Error& error) {
    const std::string line = error.what();
    if (line.find('\n') != std::string::npos) return AssertionFailure() << "more than one line: " << line;
    if (line.find(bad.message) == std::string::npos)
      return AssertionFailure() << "'" << line << "' does not say '" << bad.message << "'";
    if (std::memcmp(y.bytes(), untouched.bytes(), y.size_bytes()) != 0)
      return AssertionFailure() << "refused, but the output was written";
    return AssertionSuccess() << line;
  }
  return AssertionFailure() << "was accepted";
}

Tensor rows_of_tensor(const Tensor& tensor, const std::vector<std::int64_t>& chosen) {
  Shape shape = tensor.shape();
  const std::size_t row_bytes = tensor.size_bytes() / std::size_t(shape[0]);
  shape[0] = std::int64_t(chosen.size());
  Tensor rows(tensor.dtype(), shape);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    std::memcpy(rows.bytes() + i * row_bytes, tensor.bytes() + std::size_t(chosen[i]) * row_bytes, row_bytes);
  return rows;
}

Tensor index_operand(std::uint64_t seed, std::int64_t rows, std::int64_t limit) {
  Tensor index(DType::i64, {rows});
  for (std::int64_t s = 0; s < rows; ++s)
    index.data<std::int64_t>()[s] = (s + 3 * (s / limit) + std::int64_t(seed)) % limit;
  return index;
}

Tensor uneven_index(std::int64_t rows, std::int64_t limit) {
  Tensor index(DType::i64, {rows});
  for (std::int64_t s = 0; s < rows; ++s)
    index.data<std::int64_t>()[s] = s % 16 == 15 ? 2 + s / 16 % (limit - 3) : 1;
  return index;
}

std::vector<Tensor> outputs_with(const Tensor& y, std::size_t which,
                                 const std::vector<OutputShape>& outputs) {
  std::vector<Tensor> all;
  for (const auto& [dtype, shape] : outputs) {
    if (all.size() == which) {
      all.push_back(y.reshaped(shape));
      continue;
    }
#ifdef H3_HAVE_CUDA
    if (y.device() == Device::cuda) {
      all.push_back(cuda::allocate(dtype, shape));
      continue;
    }
#endif
    all.emplace_back(dtype, shape);
  }
  return all;
}

Tensor around_one(std::uint64_t seed, const std::string& name, const Shape& shape, DType dtype) {
  Tensor tensor = synthetic_activation(seed, name, shape, DType::fp32, 0.25f);
  for (float& value : tensor.values<float>()) value += 1;
  return tensor.to(dtype);
}

Tensor listed(DType dtype, const Shape& shape, const std::vector<double>& values) {
  Tensor tensor(DType::fp64, shape);
  require(tensor.elements() == std::int64_t(values.size()), "{} values for a tensor {}", values.size(),
          to_string(shape));
  std::copy(values.begin(), values.end(), tensor.data<double>());
  return tensor.to(dtype);
}

Tensor filled(DType dtype, const Shape& shape, double value) {
  Tensor tensor(dtype, shape);
  if (dtype == DType::i64) {
    std::fill_n(tensor.data<std::int64_t>(), tensor.elements(), std::int64_t(value));
    return tensor;
  }
  return listed(dtype, shape, std::vector<double>(std::size_t(tensor.elements()), value));
}

Tensor listed_index(const std::vector<double>& values) {
  Tensor index(DType::i64, {std::int64_t(values.size())});
  std::copy(values.begin(), values.end(), index.data<std::int64_t>());
  return index;
}

}  // namespace h3
