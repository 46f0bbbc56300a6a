// A sum in another order has another certificate.
#include "harness/power/summation_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "harness/compare/tensor_changes.h"
#include "harness/execution/execution_over.h"
#include "kernels/linear.h"

namespace h3 {
namespace {

struct OtherOrder {
  const char* name;
  const char* node;
  const char* sum;
  const char* found;
  Tensor (*run)(const Execution& strict, const Node& node, std::vector<Tensor> in,
                std::vector<Tensor> weights);
};
void PrintTo(const OtherOrder& order, std::ostream* out) { *out << order.name; }

class Reordered : public ExecutionOver {
 public:
  explicit Reordered(const OtherOrder& order) : ExecutionOver(cpu_execution(order_config())), order_(order) {}
  std::string name() const override { return "reordered"; }
  Tensor run(const Node& node, std::span<const Tensor> in, std::span<const Tensor> weights) const override {
    if (node.name != order_.node) return base().run(node, in, weights);
    return order_.run(base(), node, {in.begin(), in.end()}, {weights.begin(), weights.end()});
  }
  NodeGradients backward(const Node& node, std::span<const Tensor> in, std::span<const Tensor> weights,
                         const Tensor&, const Tensor& gradient) const override {
    return base().backward(node, in, weights, base().run(node, in, weights), gradient);
  }

 private:
  const OtherOrder& order_;
};

struct SumInAnotherOrder : testing::TestWithParam<OtherOrder> {};

TEST_P(SumInAnotherOrder, changes_its_certificate_and_no_other) {
  const OtherOrder& order = GetParam();
  const auto strict = order_certificates(*cpu_execution(order_config()));
  const auto got = order_certificates(Reordered(order));
  ASSERT_EQ(got.size(), strict.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool here =
        std::string(got[i].reduction.node) == order.node && std::string(got[i].reduction.sum) == order.sum;
    EXPECT_EQ(got[i].as_declared(), !here) << got[i].reduction.node << ' ' << got[i].reduction.sum;
    EXPECT_EQ(got[i].digest != strict[i].digest, here);
    if (here) {
      EXPECT_TRUE(got[i].found.starts_with(order.found)) << got[i].found;
    }
  }
}

Tensor in_two_halves(const Execution&, const Node& node, std::vector<Tensor> in,
                     std::vector<Tensor> weights) {
  const std::int64_t half = in[0].cols() / 2;
  Tensor sum(DType::fp32, {in[0].rows(), node.cols}), part(DType::fp32, sum.shape());
  kernels::linear(spoil::column_range(in[0], 0, half), spoil::column_range(weights[0], 0, half), nullptr,
                  sum);
  kernels::linear(spoil::column_range(in[0], half, half), spoil::column_range(weights[0], half, half),
                  nullptr, part);
  for (std::int64_t i = 0; i < sum.elements(); ++i) sum.data<float>()[i] += part.data<float>()[i];
  return sum.to(DType::bf16);
}

Tensor downwards(const Execution& strict, const Node& node, std::vector<Tensor> in,
                 std::vector<Tensor> weights) {
  for (auto* tensor : {&in[0], &weights[0]})
    *tensor = spoil::columns(*tensor, [&](std::int64_t c) { return tensor->cols() - 1 - c; });
  return strict.run(node, in, weights);
}

Tensor keys_reversed(const Execution& strict, const Node& node, std::vector<Tensor> in,
                     std::vector<Tensor> weights) {
  for (const std::size_t i : {1, 2}) in[i] = spoil::rows_reversed(in[i]);
  return strict.run(node, in, weights);
}

const OtherOrder kOrders[] = {
    {"split_k", "q_proj", "y over K", "two halves, then their sum", in_two_halves},
    {"k_downwards", "q_proj", "y over K", "unknown", downwards},
    {"keys_reversed", "attention", "o over keys", "unknown", keys_reversed},
};
INSTANTIATE_TEST_SUITE_P(host, SumInAnotherOrder, testing::ValuesIn(kOrders),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
