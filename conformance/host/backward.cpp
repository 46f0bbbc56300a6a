// The replay of a backward on a toy graph: gradients are added in reverse execution order, and a planted
// fault is named by the gradient that it spoils first.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "conformance/claims.h"
#include "conformance/errors.h"
#include "harness/execution/backward_chain.h"
#include "harness/replay/report.h"
#include "model/digest.h"

namespace h3 {
namespace {

constexpr std::int64_t kRows = 40, kCols = 4;

// y = sum of the inputs, or x * w with a weight per column. Small whole numbers, so BF16 holds every sum
// exactly.
class Toy : public Execution {
 public:
  using Spoil = std::function<void(const Node&, int call, NodeGradients&)>;
  explicit Toy(DType dtype, Spoil spoil = {}) : dtype_(dtype), spoil_(std::move(spoil)) {}
  std::string name() const override { return "toy"; }
  Binding binding(const Node&) const override { return Binding::row; }

  Tensor run(const Node&, std::span<const Tensor> in, std::span<const Tensor> parameters) const override {
    return each(in[0].shape(), [&](std::int64_t i) {
      float y = 0;
      for (const auto& x : in) y = stored(y + x.at(i));
      return parameters.empty() ? y : y * parameters[0].at(i % kCols);
    });
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> in, std::span<const Tensor> parameters,
                         const Tensor&, const Tensor& dy) const override {
    NodeGradients gradients;
    for (std::size_t i = 0; i < in.size(); ++i) gradients.inputs.push_back(dy.clone());
    if (!parameters.empty()) {
      gradients.inputs[0] =
          each(dy.shape(), [&](std::int64_t i) { return dy.at(i) * parameters[0].at(i % kCols); });
      gradients.parameters.push_back(each({kCols}, [&](std::int64_t c) {
        float sum = 0;
        for (std::int64_t s = 0; s < dy.rows(); ++s) sum += dy.at(s * kCols + c) * in[0].at(s * kCols + c);
        return sum;
      }));
    }
    if (spoil_) spoil_(node, ++calls_[node.name], gradients);
    return gradients;
  }

  Boundaries boundaries(const Tensor&, const Tensor&, std::span<const Tensor>) const override { return {}; }

  template <class F>
  Tensor each(const Shape& shape, F value) const {
    Tensor made(DType::fp32, shape);
    for (std::int64_t i = 0; i < made.elements(); ++i) made.data<float>()[i] = value(i);
    return made.to(dtype_);
  }

 private:
  float stored(float value) const { return dtype_ == DType::bf16 ? round_bf16(value) : value; }
  DType dtype_;
  Spoil spoil_;
  mutable std::map<std::string, int> calls_;
};

Node scaled(const char* name, const char* from) {
  return {name, "toy_scale", {from}, {std::string(name) + ".weight"}, kCols};
}

// stem feeds q, k and v; top adds the three.
Graph fan() {
  return {"toy",
          {"x"},
          {scaled("stem", "x"),
           scaled("q", "stem"),
           scaled("k", "stem"),
           scaled("v", "stem"),
           {"top", "toy_sum", {"q", "k", "v"}, {}, kCols}}};
}

std::vector<Tensor> weights_of(const Node& node, float v = 2) {
  if (node.parameters.empty()) return {};
  return {Toy(DType::bf16).each({kCols}, [&](std::int64_t) { return node.name == "v" ? v : 1.0f; })};
}

Values forward(const Graph& graph, const Toy& toy, float v = 2) {
  Values values = {{"x", toy.each({kRows, kCols}, [](std::int64_t i) { return float(i * 7 % 11 - 3); })}};
  for (const auto& node : graph.nodes) {
    std::vector<Tensor> in;
    for (const auto& name : node.inputs) in.push_back(values.at(name));
    values[node.name] = toy.run(node, in, weights_of(node, v));
  }
  return values;
}

Tensor output_gradient(const Toy& toy) {
  return toy.each({kRows, kCols}, [](std::int64_t i) { return float(i * 3 % 4 - 1); });
}

using Answers = std::map<std::string, std::string>;  // SHA-256 by value: what a clean run gave

struct Replayed {
  BackwardReport report;
  Answers digests;
};

// `recorded`: the digests that a provider gave, or none.
Replayed replayed(const Toy::Spoil& spoil = {}, const Answers& recorded = {}, ReplayRequest asked = {}) {
  const Graph graph = fan();
  const Toy engine(DType::bf16, spoil), golden(DType::fp32);
  GradientJudge judge;
  if (!recorded.empty())
    judge = [&](const std::string& value, const Tensor&, const Tensor&, const std::string& sha256) {
      const bool equal = recorded.at(value) == sha256;
      ProviderVerdict verdict{equal, equal ? 0 : 1, kCols, equal ? 0 : 1, {}};
      if (!equal) verdict.first = Drift{value, 3, -1, 1, "planted"};
      return RecordedVerdict{{.relative_l2 = 5e-3}, verdict};
    };
  asked.repeat = true;
  Replayed made;
  made.report = examine_backward({graph, engine, &golden, forward(graph, engine), forward(graph, golden),
                                  output_gradient(engine), [](const Node& node) { return weights_of(node); }},
                                 asked, judge);
  for (const auto& gradient : made.report.gradients) made.digests[gradient.value] = gradient.sha256;
  return made;
}

void add_to(Tensor& gradient, std::int64_t index, float amount) {
  gradient = gradient.clone();
  gradient.data<Bf16>()[index] = to_bf16(gradient.at(index) + amount);
}

// ---- the chain ----

struct BackwardOrder : testing::TestWithParam<const char*> {};

// 256 + 1 is 256 in BF16, 1 + 1 + 256 is not: v's gradient comes first, then k's, then q's.
TEST_P(BackwardOrder, adds_in_reverse_execution_order) {
  const Graph graph = fan();
  const Toy toy(DType::bf16);
  const Tensor ones = toy.each({kRows, kCols}, [](std::int64_t) { return 1.0f; });
  BackwardChain chain(toy, graph, forward(graph, toy, 256), ones);
  std::vector<std::string> completed;
  Tensor stem;
  while (!chain.done())
    for (const auto& [value, gradient] : chain.step(weights_of(chain.next(), 256)).complete) {
      completed.push_back(value);
      if (value == "stem") stem = gradient;
    }
  EXPECT_EQ(completed, (std::vector<std::string>{"q", "k", "v", "v.weight", "k.weight", "q.weight", "stem",
                                                 "stem.weight", "x"}));
  EXPECT_TRUE(bitwise_equal(toy.each({kRows, kCols}, [](std::int64_t) { return 256.0f; }), stem));
}

TEST_P(BackwardOrder, refuses_gradients_of_other_shapes) {
  const Graph graph = fan();
  const Toy turned(DType::bf16, [](const Node&, int, NodeGradients& gradients) {
    gradients.inputs[0] = gradients.inputs[0].reshaped({kCols, kRows});
  });
  BackwardChain chain(turned, graph, forward(graph, turned), output_gradient(turned));
  EXPECT_EQ(error_of([&] { chain.step({}); }),
            "backward of node 'top': gradient of q is 4x40, expected 40x4");
}

TEST_P(BackwardOrder, refuses_a_node_that_no_gradient_reaches) {
  const Graph graph = fan();
  const Toy silent(DType::bf16, [](const Node&, int, NodeGradients& gradients) { gradients.inputs[2] = {}; });
  BackwardChain chain(silent, graph, forward(graph, silent), output_gradient(silent));
  chain.step({});
  EXPECT_EQ(error_of([&] { chain.step(weights_of(graph.node("v"))); }),
            "backward of toy: no gradient reaches 'v'");
}

INSTANTIATE_TEST_SUITE_P(host, BackwardOrder, testing::Values("toy"),
                         [](const auto& info) { return std::string(info.param); });

// ---- planted faults ----

struct Fault {
  const char* name;
  Toy::Spoil spoil;
  const char* value;  // the first gradient that it spoils
  const char* by;     // the node whose backward gave it
  std::optional<Drift> (BackwardReport::*finding)() const;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

struct PlantedFault : testing::TestWithParam<Fault> {};

TEST_P(PlantedFault, is_named_by_the_gradient_it_spoils_first) {
  const Replayed clean = replayed();
  ASSERT_TRUE(clean.report.accepted()) << to_table(clean.report, false);
  const BackwardReport report = replayed(GetParam().spoil, clean.digests).report;
  const auto found = (report.*GetParam().finding)();
  ASSERT_TRUE(found) << to_table(report, false);
  EXPECT_EQ(found->node, GetParam().value);
  EXPECT_EQ(report.gradient(found->node).node, GetParam().by);
}

Toy::Spoil wrong_input(const char* node) {
  return [=](const Node& at, int, NodeGradients& gradients) {
    if (at.name == node) add_to(gradients.inputs[0], 3 * kCols + 1, 64);
  };
}
Toy::Spoil wrong_weight(const char* node) {
  return [=](const Node& at, int, NodeGradients& gradients) {
    if (at.name == node) add_to(gradients.parameters[0], 1, 64);
  };
}

const Fault kFaults[] = {
    {"provider_input", wrong_input("v"), "stem", "q", &BackwardReport::first_drift},
    {"provider_weight", wrong_weight("k"), "k.weight", "k", &BackwardReport::first_drift},
    {"golden_first_node", wrong_input("top"), "q", "top", &BackwardReport::first_golden_drift},
    {"golden_input", wrong_input("stem"), "x", "stem", &BackwardReport::first_golden_drift},
    {"golden_weight", wrong_weight("stem"), "stem.weight", "stem", &BackwardReport::first_golden_drift},
    {"golden_nan",
     [](const Node& at, int, NodeGradients& gradients) {
       if (at.name == "q") add_to(gradients.inputs[0], 5, std::numeric_limits<float>::quiet_NaN());
     },
     "stem", "q", &BackwardReport::first_golden_drift},
    {"second_run_differs",
     [](const Node& at, int call, NodeGradients& gradients) {
       if (at.name == "k" && call == 2) add_to(gradients.parameters[0], 2, 1);
     },
     "k.weight", "k", &BackwardReport::first_repeat_drift},
    {"rows_depend_on_their_batch",
     [](const Node& at, int, NodeGradients& gradients) {
       if (at.name == "stem" && gradients.inputs[0].rows() == 17) add_to(gradients.inputs[0], 3 * kCols, 1);
     },
     "x", "stem", &BackwardReport::first_batch_drift},
};
INSTANTIATE_TEST_SUITE_P(host, PlantedFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- acceptance and the report ----

struct SpoiledReport {
  const char* name;
  std::function<void(BackwardReport&)> spoil;
};
void PrintTo(const SpoiledReport& row, std::ostream* out) { *out << row.name; }

struct BackwardAcceptance : testing::TestWithParam<SpoiledReport> {};

TEST_P(BackwardAcceptance, is_refused) {
  BackwardReport report = replayed().report;
  ASSERT_TRUE(report.accepted());
  GetParam().spoil(report);
  EXPECT_FALSE(report.accepted());
  EXPECT_EQ(to_json(report).at("accepted"), false);
  EXPECT_NE(to_table(report, false).find("NOT accepted"), std::string::npos);
  ReplayReport replay;
  EXPECT_EQ(to_json(replay, report).at("accepted"), false);
}

const Drift kDrift = {"x", 3, -1, 1, "planted"};
const SpoiledReport kSpoiled[] = {
    {"a_binding_is_a_stand_in", [](BackwardReport& r) { r.nodes[2].binding = Binding::interim; }},
    {"a_golden_bound_is_exceeded", [](BackwardReport& r) { r.gradients[4].golden->accepted = false; }},
    {"a_second_run_differs", [](BackwardReport& r) { r.nodes[1].repeat_drift = kDrift; }},
    {"a_later_pass_differs", [](BackwardReport& r) { r.gradients[8].passes_differing = 1; }},
    {"a_row_depends_on_its_batch", [](BackwardReport& r) { r.nodes[4].batch_drift = kDrift; }},
    {"a_permutation_changed_rows", [](BackwardReport& r) { r.permuted_rows_changed = 1; }},
    {"a_permutation_changed_a_sum", [](BackwardReport& r) { r.permuted_leaves_changed = 1; }},
    {"nothing_was_replayed", [](BackwardReport& r) { r.nodes.clear(); }},
};
INSTANTIATE_TEST_SUITE_P(host, BackwardAcceptance, testing::ValuesIn(kSpoiled),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
