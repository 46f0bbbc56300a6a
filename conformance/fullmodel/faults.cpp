// Faults that ports of the model have made, planted into the strict execution of the reduced model: the gate
// ends "not closed", and the first drift has the name of the fault's place. The same execution without a
// fault passes.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "conformance/errors.h"
#include "conformance/fullmodel/reduced.h"

namespace h3 {
namespace {

void zero(Tensor& tensor) { std::memset(tensor.bytes(), 0, tensor.size_bytes()); }

// The first half of every row exchanged with the second.
Tensor halves_swapped(const Tensor& tensor) {
  Tensor swapped = tensor.clone();
  const std::size_t row = size_of(tensor.dtype()) * std::size_t(tensor.cols());
  for (std::int64_t r = 0; r < tensor.rows(); ++r) {
    std::byte* to = swapped.bytes() + std::size_t(r) * row;
    const std::byte* from = tensor.bytes() + std::size_t(r) * row;
    std::memcpy(to, from + row / 2, row / 2);
    std::memcpy(to + row / 2, from, row / 2);
  }
  return swapped;
}

// Every row's index is that of the next tag of the same timestep.
Tensor next_tag(const Tensor& indices) {
  Tensor moved = indices.clone();
  for (auto& index : moved.values<std::int64_t>()) index = index / kTags * kTags + (index + 1) % kTags;
  return moved;
}

// A place in the model: the node whose parameters, or whose block's parameters, carry this prefix.
struct Call {
  const Node& node;
  const std::string& block;  // of the last parameter seen, "transformer_blocks.2."
  std::vector<Tensor> inputs;
};

struct Fault {
  const char* name;
  Pass pass;
  const char* first_drift;
  void (*change_inputs)(Call& call) = nullptr;
  void (*change_output)(const Call& call, Tensor& output) = nullptr;
  void (*change_gradients)(const Call& call, NodeGradients& gradients) = nullptr;
};
void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }

class Faulty : public ExecutionOver {
 public:
  Faulty(const Config& config, const Fault& fault) : ExecutionOver(cpu_execution(config)), fault_(fault) {}
  std::string name() const override { return "faulty"; }

  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    Call call = called(node, inputs);
    if (fault_.change_inputs) fault_.change_inputs(call);
    Tensor output = base().run(node, call.inputs, parameters);
    if (fault_.change_output) fault_.change_output(call, output);
    return output;
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    Call call = called(node, inputs);
    NodeGradients gradients = base().backward(node, inputs, parameters, output, gradient);
    for (auto* list : {&gradients.inputs, &gradients.parameters})
      for (Tensor& tensor : *list)
        if (!tensor.empty()) tensor = tensor.clone();  // a residual hands on what others read, too
    if (fault_.change_gradients) fault_.change_gradients(call, gradients);
    return gradients;
  }

 private:
  Call called(const Node& node, std::span<const Tensor> inputs) const {
    if (!node.parameters.empty()) {
      const std::string& parameter = node.parameters[0];
      const auto dot = parameter.find('.', std::string("transformer_blocks.").size());
      if (parameter.starts_with("transformer_blocks.")) block_ = parameter.substr(0, dot + 1);
    }
    return {node, block_, {inputs.begin(), inputs.end()}};
  }

  const Fault& fault_;
  mutable std::string block_;
};

const Fault kFaults[] = {
    {.name = "sinusoid_halves_swapped",
     .pass = Pass::forward,
     .first_drift = "timestep_sinusoid",
     .change_output =
         [](const Call& call, Tensor& y) {
           if (call.node.name == "timestep_sinusoid") y = halves_swapped(y);
         }},
    {.name = "timestep_embedding_in_bf16",
     .pass = Pass::forward,
     .first_drift = "timestep_mlp",
     .change_output =
         [](const Call& call, Tensor& y) {
           if (call.node.name == "timestep_mlp") y = y.to(DType::bf16).to(DType::fp32);
         }},
    {.name = "input_projection_in_bf16",
     .pass = Pass::forward,
     .first_drift = "video_in_proj",
     .change_output =
         [](const Call& call, Tensor& y) {
           if (call.node.name == "video_in_proj") y = y.to(DType::bf16).to(DType::fp32);
         }},
    {.name = "refiner_norm_left_out",
     .pass = Pass::forward,
     .first_drift = "token_refiner.final_norm",
     .change_output =
         [](const Call& call, Tensor& y) {
           if (call.node.name == "token_refiner.final_norm") y = call.inputs[0].clone();
         }},
    {.name = "two_rows_exchanged_in_packing",
     .pass = Pass::forward,
     .first_drift = "packing",
     .change_inputs =
         [](Call& call) {
           if (call.node.name != "packing") return;
           call.inputs[4] = call.inputs[4].clone();
           std::swap(call.inputs[4].data<std::int64_t>()[0], call.inputs[4].data<std::int64_t>()[1]);
         }},
    {.name = "tag_index_off_by_one",
     .pass = Pass::forward,
     .first_drift = "transformer_blocks.2.residual_mlp",
     .change_inputs =
         [](Call& call) {
           if (call.node.name == "norm1" && call.block == "transformer_blocks.2.")
             call.inputs[2] = next_tag(call.inputs[2]);
         }},
    {.name = "one_half_block_skipped",
     .pass = Pass::forward,
     .first_drift = "transformer_blocks.3.residual_mlp",
     .change_output =
         [](const Call& call, Tensor& y) {
           if (call.node.name == "residual_mlp" && call.block == "transformer_blocks.3.")
             y = call.inputs[0].clone();
         }},
    {.name = "norm_out_shift_and_scale_swapped",
     .pass = Pass::forward,
     .first_drift = "norm_out",
     .change_inputs =
         [](Call& call) {
           if (call.node.name == "norm_out") call.inputs[1] = halves_swapped(call.inputs[1]);
         }},
    {.name = "nan_in_an_output",
     .pass = Pass::forward,
     .first_drift = "audio_output",
     .change_output =
         [](const Call& call, Tensor& y) {
           if (call.node.name == "audio_output") y.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
         }},
    {.name = "gradient_of_one_head_lost",
     .pass = Pass::backward,
     .first_drift = "norm_out_fp32",
     .change_gradients =
         [](const Call& call, NodeGradients& g) {
           if (call.node.name == "audio_out_proj") zero(g.inputs[0]);
         }},
    {.name = "gradient_of_a_parameter_zero",
     .pass = Pass::backward,
     .first_drift = "transformer_blocks.1.attn.to_k.weight",
     .change_gradients =
         [](const Call& call, NodeGradients& g) {
           if (call.node.name == "k_proj" && call.block == "transformer_blocks.1.") zero(g.parameters[0]);
         }},
    {.name = "time_embedding_misses_one_block",
     .pass = Pass::backward,
     .first_drift = "timestep_mlp",
     .change_gradients =
         [](const Call& call, NodeGradients& g) {
           if (call.node.name == "adaln_projection" && call.block == "transformer_blocks.2.")
             zero(g.inputs[0]);
         }},
    {.name = "input_gradient_of_text_lost",
     .pass = Pass::backward,
     .first_drift = "text_rows",
     .change_gradients =
         [](const Call& call, NodeGradients& g) {
           if (call.node.name == "context_embedder") zero(g.inputs[0]);
         }},
};

class PlantedModelFault : public testing::TestWithParam<Fault> {};

TEST_P(PlantedModelFault, is_noticed_where_it_is) {
  const FullModelReport report = reduced_model().examine(Faulty(reduced_model().config, GetParam()));
  EXPECT_FALSE(report.accepted());
  const TensorResult* drift = report.first_drift(GetParam().pass);
  ASSERT_NE(drift, nullptr);
  EXPECT_EQ(drift->name, GetParam().first_drift) << drift->reason;
  if (GetParam().pass == Pass::backward) {
    EXPECT_EQ(report.first_drift(Pass::forward), nullptr);
  }
}

INSTANTIATE_TEST_SUITE_P(fullmodel, PlantedModelFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return testing::PrintToString(info.param); });

class Twin : public testing::TestWithParam<const char*> {};

TEST_P(Twin, of_the_faulty_execution_passes_without_a_fault) {
  const Fault none = {.name = "none", .pass = Pass::forward, .first_drift = ""};
  EXPECT_TRUE(reduced_model().examine(Faulty(reduced_model().config, none)).accepted());
}

class Interim : public Faulty {
 public:
  using Faulty::Faulty;
  Binding binding(const Node& node) const override {
    return node.name == "norm_out" ? Binding::interim : Binding::row;
  }
};

TEST_P(Twin, with_a_node_that_is_not_its_row_is_an_error) {
  const Fault none = {.name = "none", .pass = Pass::forward, .first_drift = ""};
  EXPECT_TRUE(fails_naming([&] { reduced_model().examine(Interim(reduced_model().config, none)); },
                           {"norm_out", "interim", "expected row or candidate"}));
}

INSTANTIATE_TEST_SUITE_P(fullmodel, Twin, testing::Values("reduced_cpu"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
