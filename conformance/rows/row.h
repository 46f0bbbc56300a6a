// What every row of the RFC that treats its rows one by one promises, whatever it computes. A file of claims
// builds a RowProblem for each line of its table and asserts these:
//
//   matches_golden        within the bound that the file derives, or bit for bit where nothing is rounded
//   repeats_bitwise       again, and with other numbers of threads
//   rows_alone_equal_rows_in_a_batch
//   follows_a_row_permutation
//   stays_inside_its_output, and writes all of it
//   bound_has_power       the bound refuses zeros, a doubled tensor, permuted rows
//
// A backward has several outputs; each is a problem of its own, the others go to scratch (outputs_with).
// Gradients of rows make the claims of rows, and sums over rows those that do not speak of single rows:
//   H3_ROW_CLAIMS(Suite)  all of the above, and that a NaN reaches its own row and no other
//   H3_SUM_CLAIMS(Suite)  those without a row in them, and that a NaN is seen
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "conformance/claims.h"
#include "harness/compare/compare.h"
#include "model/tensor.h"

namespace h3 {

enum class Engine : std::uint8_t { cpu, cuda };

struct RowCase {
  const char* row;          // RFC row, or what of it
  std::int64_t rows, cols;  // cols in the sense of the kernel
  DType dtype = DType::bf16;
  std::uint64_t seed = 7;
  Engine engine = Engine::cpu;
};
std::string name_of(const RowCase& row);  // h3_rmsnorm_264x5376_bf16_s7_cpu
void PrintTo(const RowCase& row, std::ostream* out);

struct RowProblem {
  std::vector<Tensor> operands;  // those that have a row (outermost extent) for every row of the output
  std::function<void(const std::vector<Tensor>& operands, Tensor& y)> run;
  Tensor golden;                 // all rows
  DType dtype = DType::bf16;     // of the output
  std::optional<Bound> bound{};  // none: the golden's values, bit for bit
  // The strict kernel: operands on the CPU, y on the GPU. See conformance/rows/on_cuda.h.
  std::function<void(const std::vector<Tensor>& operands, Tensor& y)> run_on_cuda{};
};

testing::AssertionResult matches_golden(const RowProblem& problem);
testing::AssertionResult repeats_bitwise(const RowProblem& problem);
testing::AssertionResult rows_alone_equal_rows_in_a_batch(const RowProblem& problem);
testing::AssertionResult follows_a_row_permutation(const RowProblem& problem);
testing::AssertionResult stays_inside_its_output(const RowProblem& problem);
testing::AssertionResult bound_has_power(const RowProblem& problem);
// A NaN in the first element of the first operand: the answer has one, in row 0 alone where `by_row`.
testing::AssertionResult a_nan_is_seen(const RowProblem& problem, bool by_row);

#define H3_CLAIMS_OF_ANY_OUTPUT(Suite)                                                        \
  TEST_P(Suite, matches_golden) { EXPECT_TRUE(matches_golden(problem())); }                   \
  TEST_P(Suite, repeats_bitwise) { EXPECT_TRUE(repeats_bitwise(problem())); }                 \
  TEST_P(Suite, stays_inside_its_output) { EXPECT_TRUE(stays_inside_its_output(problem())); } \
  TEST_P(Suite, bound_has_power) { EXPECT_TRUE(bound_has_power(problem())); }
#define H3_ROW_CLAIMS(Suite)                                                                      \
  H3_CLAIMS_OF_ANY_OUTPUT(Suite)                                                                  \
  TEST_P(Suite, rows_alone_equal_rows_in_a_batch) {                                               \
    EXPECT_TRUE(rows_alone_equal_rows_in_a_batch(problem()));                                     \
  }                                                                                               \
  TEST_P(Suite, follows_a_row_permutation) { EXPECT_TRUE(follows_a_row_permutation(problem())); } \
  TEST_P(Suite, a_nan_stays_in_its_row) { EXPECT_TRUE(a_nan_is_seen(problem(), true)); }
#define H3_SUM_CLAIMS(Suite)     \
  H3_CLAIMS_OF_ANY_OUTPUT(Suite) \
  TEST_P(Suite, a_nan_is_seen) { EXPECT_TRUE(a_nan_is_seen(problem(), false)); }

// All outputs of a backward, where `y` is the one in question and the others are scratch beside it.
struct OutputShape {
  DType dtype;
  Shape shape;
};
std::vector<Tensor> outputs_with(const Tensor& y, std::size_t which, const std::vector<OutputShape>& outputs);

// The bound for this many independent roundings to a type of p significant bits. An error spread evenly over
// half a unit in the last place has an RMS of 0.41 * 2^-p of the value; several add like independent errors.
// With 0.5:
//   relative_l2 <= sqrt(roundings) * 2^-(p+1)
Bound after_roundings(double roundings, DType dtype);

// The same for sums over rows, whose results are few and may lie together in the worst place of a binade, and
// whose terms cancel: no rounding errs by more than 2^-p of what it rounds.
//   relative_l2 <= roundings * 2^-p
Bound at_most_roundings(int roundings, DType dtype);

// An input outside of a row's domain: it is refused with one line that says `message`, and y is not touched.
struct BadInput {
  const char* name;
  std::string message;
  std::function<void(Tensor& y)> run;
  DType dtype = DType::bf16;  // of y
  Shape shape = {2, 8};
};
void PrintTo(const BadInput& bad, std::ostream* out);
testing::AssertionResult is_refused(const BadInput& bad);

inline std::string row_name(const testing::TestParamInfo<RowCase>& info) { return name_of(info.param); }
inline std::string bad_name(const testing::TestParamInfo<BadInput>& info) { return info.param.name; }

// Rows `chosen` of a tensor, copied.
Tensor rows_of_tensor(const Tensor& tensor, const std::vector<std::int64_t>& chosen);

// (rows) i64, every value of [0, limit) among them when there are enough rows, the order changing on the way.
Tensor index_operand(std::uint64_t seed, std::int64_t rows, std::int64_t limit);

// (rows) i64 as a packed sequence has it: most rows of one value, 1; every 16th of the others in turn. 0 and
// limit - 1 have no row.
Tensor uneven_index(std::int64_t rows, std::int64_t limit);

// The weight of a norm: 1 and a quarter of a normal.
Tensor around_one(std::uint64_t seed, const std::string& name, const Shape& shape, DType dtype);

// A tensor of the values given, and one of the same value throughout.
Tensor listed(DType dtype, const Shape& shape, const std::vector<double>& values);
Tensor filled(DType dtype, const Shape& shape, double value);
Tensor listed_index(const std::vector<double>& values);  // (n) i64

}  // namespace h3
