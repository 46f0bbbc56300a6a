// One rank's view of a transformer block, as an execution of its own: values are the rank's parts in their
// homes (harness/parallel/parallel_plan.h). A node's operands are brought to where its arithmetic takes them,
// the engine runs it, and what it made goes home. Graphs are walked as ever: forward node by node, backward
// by BackwardChain, whose order of adding gradients is that of one rank.
#pragma once

#include <list>

#include "harness/execution/execution.h"
#include "harness/parallel/parallel_plan.h"
#include "model/layout.h"

namespace h3 {

class RankExecution : public Execution {
 public:
  // `rows` S and `timesteps` U of the layout. `plan`, `ownership` and `exchange` outlive this.
  RankExecution(const std::string& engine, const Config& config, const Graph& block, std::int64_t rows,
                std::int64_t timesteps, const Plan& plan, const Ownership& ownership, Exchange& exchange);

  std::string name() const override { return engine_->name(); }
  Binding binding(const Node& node) const override { return engine_->binding(node); }
  Tensor place(const Tensor& on_cpu) const override { return engine_->place(on_cpu); }
  Tensor fetch(const Tensor& placed) const override { return engine_->fetch(placed); }
  Tensor parameter(const Weights& weights, const std::string& name) const override;  // its part
  Tensor run(const Node& node, std::span<const Tensor> inputs,
             std::span<const Tensor> parameters) const override;
  NodeGradients backward(const Node& node, std::span<const Tensor> inputs, std::span<const Tensor> parameters,
                         const Tensor& output, const Tensor& gradient) const override;
  Boundaries boundaries(const Tensor& timesteps, const Tensor& positions,
                        std::span<const Tensor> time_embedder) const override;

  // What this rank holds of a value or parameter.
  Part part(const std::string& value) const;
  Extent extent(const std::string& value) const;  // ... and how large the whole is
  // From rank 0, which alone has the whole of an input, to its home. The other ranks' handle says the type.
  Tensor scatter(const std::string& value, const Tensor& on_root) const;

 private:
  struct Known {  // a tensor that was brought somewhere: q, k and v read one norm
    Tensor from;
    Layout to;
    Tensor result;
  };
  Layout home(const std::string& value) const;
  Tensor bring(const Tensor& tensor, const std::string& value, Layout from, Layout to,
               const std::string& node) const;
  Tensor in_block_order(const Tensor& whole, const std::string& value) const;
  const Execution& engine_for(Layout output) const;
  Node local(const Node& node, Layout output) const;
  Tensor added_by_a_collective(const Node& node, const Tensor& x, const Tensor& weight) const;

  std::unique_ptr<Execution> engine_, own_heads_;  // all heads, and this rank's
  std::int64_t rows_, timesteps_;
  const Plan& plan_;
  const Ownership& ownership_;
  Exchange& exchange_;
  std::map<std::string, Extent> extents_;  // of values and parameters
  mutable std::list<Known> known_;
};

}  // namespace h3
