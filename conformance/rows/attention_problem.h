// Operands of attention, and everything that comes of them forward and backward, for claims on either engine.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conformance/claims.h"
#include "conformance/operands.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "kernels/full_attention.h"
#include "kernels/full_attention_backward.h"

namespace h3 {

inline constexpr std::int64_t kAttentionDim = 128;

struct AttentionProblem {
  Tensor q, k, v, dout;

  // Names as fixtures/export_attention_backward.py gives them.
  static AttentionProblem drawn(const std::string& name, std::int64_t queries, std::int64_t keys,
                                std::int64_t heads, int log2_std) {
    const Shape rows{queries, heads, kAttentionDim}, others{keys, heads, kAttentionDim};
    return {normal_operand(name + ".q", rows, log2_std), normal_operand(name + ".k", others, log2_std),
            normal_operand(name + ".v", others),
            normal_operand(name + ".do", rows).reshaped({queries, heads * kAttentionDim})};
  }
};

struct AttentionResult {
  Tensor o, lse, dq, dk, dv;

  std::vector<std::pair<const char*, const Tensor*>> parts() const {
    return {{"o", &o}, {"lse", &lse}, {"dq", &dq}, {"dk", &dk}, {"dv", &dv}};
  }
};

inline AttentionResult on_cpu(const AttentionProblem& problem) {
  const Shape rows = problem.q.shape(), others = problem.k.shape();
  AttentionResult result{Tensor(DType::bf16, problem.dout.shape()), Tensor(DType::fp32, {rows[1], rows[0]}),
                         Tensor(DType::bf16, rows), Tensor(DType::bf16, others), Tensor(DType::bf16, others)};
  kernels::full_attention(problem.q, problem.k, problem.v, result.o, &result.lse);
  kernels::full_attention_backward(problem.q, problem.k, problem.v, result.o, result.lse, problem.dout,
                                   result.dq, result.dk, result.dv);
  return result;
}

struct AttentionRow {
  std::int64_t queries, keys, heads;
  int log2_std = 0;     // of q and k
  bool is_low = false;  // every logit below -150: the weight of a key that is not there would be infinite
};
inline std::string name_of(const AttentionRow& row) {
  return fmt::format("h3_full_attention_{}x{}x{}_std_2_{}{}", row.queries, row.keys, row.heads, row.log2_std,
                     row.is_low ? "_low_logits" : "");
}
inline AttentionProblem problem_of(const AttentionRow& row) {
  AttentionProblem problem =
      AttentionProblem::drawn("attention", row.queries, row.keys, row.heads, row.log2_std);
  if (row.is_low)
    for (const auto& [tensor, value] : {std::pair{&problem.q, 48.0f}, {&problem.k, -48.0f}})
      for (std::int64_t at = 0; at < tensor->elements(); at += kAttentionDim)
        tensor->data<Bf16>()[at] = to_bf16(value);
  return problem;
}
inline void PrintTo(const AttentionRow& row, std::ostream* out) { *out << name_of(row); }

// What cuDNN's attention gave back on a GPU, recorded: lse and every gradient that it repeats.
inline constexpr const char* kRecordedAttention[] = {"keys_128", "keys_264", "keys_400", "keys_925",
                                                     "huge_logits"};

inline void expect_recorded(const std::string& name, AttentionResult (*run)(const AttentionProblem&)) {
  const Hdf5Reader file(fixture_path("attention_backward.h5"));
  const std::int64_t rows = file.int_attribute(name, "rows"), heads = file.int_attribute(name, "heads");
  const AttentionResult found =
      run(AttentionProblem::drawn(name, rows, rows, heads, int(file.int_attribute(name, "log2_std"))));
  int held = 0;
  for (const auto& [part, tensor] : found.parts()) {
    if (!file.contains(name + "/" + part)) continue;  // o, and dq where cuDNN adds it up with atomics
    EXPECT_TRUE(bitwise_equal(file.read(name + "/" + part), *tensor)) << part;
    ++held;
  }
  EXPECT_GE(held, 3) << "lse, dk and dv at least";
}

}  // namespace h3
