// An execution on top of another one: it hands everything on, and whoever derives from it overrides what is
// to be different.
#pragma once

#include <memory>
#include <utility>

#include "harness/execution/execution.h"

namespace h3 {

class ExecutionOver : public Execution {
 public:
  explicit ExecutionOver(const Execution& base) : base_(base) {}  // which outlives this
  explicit ExecutionOver(std::unique_ptr<Execution> base) : owned_(std::move(base)), base_(*owned_) {}

  std::string name() const override { return base_.name(); }
  Device device() const override { return base_.device(); }
  Binding binding(const Node& node) const override { return base_.binding(node); }
  Binding backward_binding(const Node& node) const override { return base_.backward_binding(node); }
  Tensor place(const Tensor& on_cpu) const override { return base_.place(on_cpu); }
  Tensor fetch(const Tensor& placed) const override { return base_.fetch(placed); }
  void wait() const override { base_.wait(); }
  Tensor parameter(const Weights& weights, const std::string& name) const override {
    return base_.parameter(weights, name);
  }
  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override {
    return base_.run(node, inputs, parameters);
  }
  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override {
    return base_.backward(node, inputs, parameters, output, gradient);
  }
  Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                        std::span<const Tensor> time_embedder) const override {
    return base_.boundaries(timesteps, positions, time_embedder);
  }

 protected:
  const Execution& base() const { return base_; }

 private:
  std::unique_ptr<Execution> owned_;
  const Execution& base_;
};

}  // namespace h3
