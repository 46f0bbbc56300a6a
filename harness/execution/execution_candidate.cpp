#include "harness/execution/execution_candidate.h"

#include <dlfcn.h>

#include <filesystem>

#include "harness/candidate/h3_candidate.h"
#include "harness/execution/boundary_nodes.h"

namespace h3 {
namespace {

// Opened once, never closed: its memory may still be handed around when this is gone.
class CandidateLibrary {
 public:
  explicit CandidateLibrary(const std::string& path)
      : path_(path), handle_(::dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    require(handle_ != nullptr, "candidate {}: {}", path, handle_ ? "" : ::dlerror());
    load(abi_, "h3_candidate_abi");
    const int abi = abi_();
    require(abi == H3_CANDIDATE_ABI, "candidate {}: interface version {}, expected {}", path, abi,
            H3_CANDIDATE_ABI);
    load(name_, "h3_candidate_name");
    load(computes_, "h3_candidate_computes");
    load(run_, "h3_candidate_run");
  }

  std::string name() const { return name_(); }
  bool computes(const std::string& node) const { return computes_(node.c_str()) != 0; }
  void run(const h3_call& call) const {
    if (const char* why = run_(&call)) fail("candidate {}: node {}: {}", name(), call.node, why);
  }

 private:
  template <class Function>
  void load(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    require(function != nullptr, "candidate {}: the library has no {}", path_, name);
  }

  std::string path_;
  void* handle_;
  decltype(h3_candidate_abi)* abi_ = nullptr;
  decltype(h3_candidate_name)* name_ = nullptr;
  decltype(h3_candidate_computes)* computes_ = nullptr;
  decltype(h3_candidate_run)* run_ = nullptr;
};

h3_tensor of(const Tensor& tensor) {
  const auto dtype = tensor.dtype() == DType::bf16   ? H3_BF16
                     : tensor.dtype() == DType::fp32 ? H3_FP32
                                                     : H3_I64;
  require(dtype != H3_I64 || tensor.dtype() == DType::i64,
          "candidate: a {} tensor has no place in its interface", name_of(tensor.dtype()));
  return {dtype, std::int32_t(tensor.shape().size()), tensor.shape().data(),
          const_cast<std::byte*>(tensor.bytes())};
}

class CandidateExecution : public Execution {
 public:
  CandidateExecution(const std::string& path, const Config& config)
      : library_(path), strict_(cpu_execution(config)), config_(config) {}
  std::string name() const override { return library_.name(); }
  Binding binding(const Node& node) const override {
    return is_its(node) ? Binding::candidate : strict_->binding(node);
  }

  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    if (!is_its(node)) return strict_->run(node, inputs, parameters);
    std::vector<h3_tensor> in, held;
    for (const Tensor& tensor : inputs) in.push_back(of(tensor));
    for (const Tensor& tensor : parameters) held.push_back(of(tensor));
    Tensor output = output_of(node, inputs);
    library_.run({node.name.c_str(), node.row.c_str(), std::int32_t(in.size()), in.data(),
                  std::int32_t(held.size()), held.data(), of(output)});
    return output;
  }

  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    return strict_->backward(node, inputs, parameters, output, gradient);
  }
  Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                        std::span<const Tensor> time_embedder) const override {
    return strict_->boundaries(timesteps, positions, time_embedder);
  }

 private:
  bool is_its(const Node& node) const { return !is_boundary(node) && library_.computes(node.name); }

  Tensor output_of(const Node& node, std::span<const Tensor> inputs) const {
    const std::int64_t rows = inputs[0].shape()[0];
    if (node.row == "h3_qk_rmsnorm_d128" || node.row == "h3_mm_rope_3axis_partial")
      return Tensor(DType::bf16, {rows, config_.num_attention_heads, config_.attention_head_dim});
    return Tensor(node.row == "residual" ? inputs[0].dtype() : DType::bf16,
                  {node.name == "adaln_projection" ? kTags * rows : rows, node.cols});
  }

  CandidateLibrary library_;
  std::unique_ptr<Execution> strict_;
  Config config_;
};

}  // namespace

std::unique_ptr<Execution> candidate_execution(const std::string& library, const Config& config) {
  return std::make_unique<CandidateExecution>(library, config);
}

}  // namespace h3
