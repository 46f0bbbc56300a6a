#include "harness/execution/execution_candidate.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "harness/candidate/h3_candidate.h"
#include "harness/execution/execution_over.h"
#include "harness/execution/node_output.h"
#include "model/stages.h"

namespace h3 {
namespace {

// Opened once, never closed: its memory may still be handed around when this is gone.
class CandidateLibrary {
 public:
  explicit CandidateLibrary(const std::string& path)
      : path_(path), handle_(::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    require(handle_ != nullptr, "candidate {}: {}", path, handle_ ? "" : ::dlerror());
    decltype(h3_candidate_abi)* abi = nullptr;
    load(abi, "h3_candidate_abi");
    version_ = abi();
    require(version_ >= 1 && version_ <= H3_CANDIDATE_ABI,
            "candidate {}: interface version {}, expected 1 to {}", path, version_, H3_CANDIDATE_ABI);
    load(name_, "h3_candidate_name");
    load(computes_, "h3_candidate_computes");
    load(run_, "h3_candidate_run");
    if (version_ == 1) return;
    find(backward_, "h3_candidate_backward");
    find(memory_, "h3_candidate_memory");
  }

  int version() const { return version_; }
  std::string name() const { return name_(); }
  bool takes_device_memory() const { return memory_ != nullptr && memory_() == H3_CUDA; }

  // H3_FORWARD and H3_BACKWARD, or nothing.
  int computes(const std::string& node) const {
    const int answer = computes_(node.c_str());
    if (version_ == 1) return answer != 0 ? H3_FORWARD : 0;
    require(answer == 0 || answer == H3_FORWARD || answer == (H3_FORWARD | H3_BACKWARD),
            "candidate {}: node {}: h3_candidate_computes returns {}, expected 0, {} or {}", path_, node,
            answer, int(H3_FORWARD), H3_FORWARD | H3_BACKWARD);
    require(!(answer & H3_BACKWARD) || backward_ != nullptr,
            "candidate {}: node {}: the library has no h3_candidate_backward", path_, node);
    return answer;
  }
  void run(const h3_call& call) const { check(call, run_(&call)); }
  void backward(const h3_backward_call& call) const { check(call.forward, backward_(&call)); }

 private:
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  template <class Function>
  void load(Function*& function, const char* name) const {
    find(function, name);
    require(function != nullptr, "candidate {}: the library has no {}", path_, name);
  }
  void check(const h3_call& call, const char* why) const {
    if (why) fail("candidate {}: node {}: {}", name(), call.node, why);
  }

  std::string path_;
  void* handle_;
  int version_ = 0;
  decltype(h3_candidate_name)* name_ = nullptr;
  decltype(h3_candidate_computes)* computes_ = nullptr;
  decltype(h3_candidate_run)* run_ = nullptr;
  decltype(h3_candidate_backward)* backward_ = nullptr;
  decltype(h3_candidate_memory)* memory_ = nullptr;
};

h3_dtype of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return H3_BF16;
    case DType::fp32:
      return H3_FP32;
    case DType::i64:
      return H3_I64;
    case DType::fp64:
      return H3_FP64;
    default:
      fail("candidate: a {} tensor has no place in its interface", name_of(dtype));
  }
}

// Of an empty tensor its data are null.
h3_tensor of(const Tensor& tensor) {
  return {of(tensor.dtype()), std::int32_t(tensor.shape().size()), tensor.shape().data(),
          const_cast<std::byte*>(tensor.bytes())};
}

std::vector<h3_tensor> of(std::span<const Tensor> tensors) {
  std::vector<h3_tensor> list;
  for (const Tensor& tensor : tensors) list.push_back(of(tensor));
  return list;
}

bool has_gradient(const Node& node, std::size_t input, const Tensor& operand) {
  static constexpr std::string_view kGiven[] = {"rotary_cos", "rotary_sin", "timestep_sinusoid"};
  return operand.dtype() != DType::i64 && operand.dtype() != DType::fp64 &&
         std::ranges::count(kGiven, node.inputs[input]) == 0;
}

// The nodes of the graphs under their names in the interface, by what tells them apart here: where a node of
// the refiner takes other inputs than the block's of that name, it has a name of its own.
using NodeKey = std::pair<std::string, std::vector<std::string>>;
NodeKey key_of(const Node& node) { return {node.name, node.inputs}; }

std::map<NodeKey, std::string> names_in_the_interface(Config config, int version) {
  config.num_layers = config.num_refiner_layers = 1;
  const Graph block = transformer_block(config, 0), refiner = refiner_block(config, 0);
  std::map<NodeKey, std::string> names;
  for (const Node& node : block.nodes) names[key_of(node)] = node.name;
  if (version == 1) return names;
  for (const Node& node : refiner.nodes) names.try_emplace(key_of(node), "refiner." + node.name);
  for (const Graph& graph :
       {step_tables(config), model_entry(config), packed_sequence(config), model_exit(config)})
    for (const Node& node : graph.nodes) names[key_of(node)] = node.name;
  return names;
}

// Where the library takes its tensors.
std::unique_ptr<Execution> strict_rows(const CandidateLibrary& library, const std::string& path,
                                       const Config& config) try {
  return library.takes_device_memory() ? cuda_execution(config) : cpu_execution(config);
} catch (const Error& error) {
  fail("candidate {} takes device memory: {}", path, error.what());
}

class CandidateExecution : public ExecutionOver {  // over the strict rows
 public:
  CandidateExecution(CandidateLibrary library, const std::string& path, const Config& config)
      : ExecutionOver(strict_rows(library, path, config)), library_(std::move(library)), config_(config) {
    for (const auto& [key, name] : names_in_the_interface(config, library_.version()))
      if (const int computes = library_.computes(name)) its_[key] = {name, computes};
    require(!its_.empty(), "candidate {}: computes none of the nodes in h3_candidate.h", path);
  }

  std::string name() const override { return library_.name(); }
  Binding binding(const Node& node) const override {
    return its(node, H3_FORWARD) ? Binding::candidate : base().binding(node);
  }
  Binding backward_binding(const Node& node) const override {
    return its(node, H3_BACKWARD) ? Binding::candidate : base().backward_binding(node);
  }
  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    const Its* own = its(node, H3_FORWARD);
    if (!own) return base().run(node, inputs, parameters);
    const Operands operands(*this, inputs, parameters);
    const Tensor output = place(output_of(node, config_, inputs));
    library_.run(operands.call(*own, node, output));
    wait_for(*own);
    return as_inputs(inputs, output);
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    const Its* own = its(node, H3_BACKWARD);
    if (!own) return strict_backward(node, inputs, parameters, output, gradient);
    const Operands operands(*this, inputs, parameters);
    const Tensor y = placed(output), dy = placed(gradient);
    NodeGradients made;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      made.inputs.push_back(has_gradient(node, i, inputs[i]) ? unwritten(inputs[i]) : Tensor());
    for (const Tensor& parameter : parameters) made.parameters.push_back(unwritten(parameter));
    const auto of_inputs = of(made.inputs), of_parameters = of(made.parameters);
    library_.backward({operands.call(*own, node, y), of(dy), of_inputs.data(), of_parameters.data()});
    wait_for(*own);
    for (auto* list : {&made.inputs, &made.parameters})
      for (Tensor& tensor : *list)
        if (!tensor.empty()) tensor = as_inputs(inputs, tensor);
    return made;
  }

 private:
  struct Its {
    std::string name;
    int computes;
  };
  const Its* its(const Node& node, int direction) const {
    const auto found = its_.find(key_of(node));
    return found != its_.end() && found->second.computes & direction ? &found->second : nullptr;
  }

  // A call's operands where the library takes them, kept for as long as the call is under way.
  class Operands {
   public:
    Operands(const CandidateExecution& execution, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) {
      for (const Tensor& tensor : inputs) inputs_.push_back(execution.placed(tensor));
      for (const Tensor& tensor : parameters) parameters_.push_back(execution.placed(tensor));
      in_ = of(inputs_);
      held_ = of(parameters_);
    }
    // On the default stream, where the strict rows run, too.
    h3_call call(const Its& own, const Node& node, const Tensor& output) const {
      return {own.name.c_str(),
              node.row.c_str(),
              std::int32_t(in_.size()),
              in_.data(),
              std::int32_t(held_.size()),
              held_.data(),
              of(output),
              nullptr};
    }

   private:
    std::vector<Tensor> inputs_, parameters_;
    std::vector<h3_tensor> in_, held_;
  };

  // A kernel's fault shows only now, and is to be named as the library's.
  void wait_for(const Its& own) const {
    try {
      wait();
    } catch (const Error& error) {
      fail("candidate {}: node {}: {}", name(), own.name, error.what());
    }
  }
  Tensor placed(const Tensor& tensor) const {
    return tensor.device() == Device::cpu ? place(tensor) : tensor;
  }
  Tensor unwritten(const Tensor& like) const { return place(Tensor(like.dtype(), like.shape())); }
  Tensor as_inputs(std::span<const Tensor> inputs, const Tensor& result) const {
    const bool on_cpu =
        std::ranges::all_of(inputs, [](const Tensor& t) { return t.device() == Device::cpu; });
    return on_cpu ? fetch(result) : result;
  }

  // Attention's strict backward goes on from the strict forward, whose bytes a candidate's need not have.
  NodeGradients strict_backward(const Node& node, std::span<const Tensor> inputs,
                                std::span<const Tensor> parameters, const Tensor& output,
                                const Tensor& gradient) const {
    const bool not_its_own = node.row == "h3_full_attention" && its(node, H3_FORWARD);
    return base().backward(node, inputs, parameters,
                           not_its_own ? base().run(node, inputs, parameters) : output, gradient);
  }

  CandidateLibrary library_;
  Config config_;
  std::map<NodeKey, Its> its_;
};

}  // namespace

std::unique_ptr<Execution> candidate_execution(const std::string& library, const Config& config) {
  return std::make_unique<CandidateExecution>(CandidateLibrary(library), library, config);
}

}  // namespace h3
