// Controls: small deliberate faults that ports of the model and test suites have really made, each with the
// class and the place that it must be found with, beside an unperturbed twin that must pass.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/compare/fault_class.h"
#include "harness/execution/block_inputs.h"
#include "harness/execution/execution.h"

namespace h3 {

// One call of a node, as a planted fault sees it.
struct Call {
  const Execution& strict;  // what the twin runs
  const Node& node;
  std::vector<Tensor> inputs, parameters;
  Tensor output, gradient;  // of a backward
  std::int64_t number = 0;  // of calls of this node before this one

  Tensor run() const { return strict.run(node, inputs, parameters); }
  NodeGradients backward() const { return strict.backward(node, inputs, parameters, output, gradient); }
};

// A fault in the graph: what runs instead of one node's row, forward or backward.
struct Plant {
  std::string at = {};  // "transformer_blocks.0.norm1"; empty: where the control must be found
  std::function<Tensor(Call)> run = {};
  std::function<NodeGradients(Call)> backward = {};
};

struct Finding {
  FaultClass fault = FaultClass::none;
  std::string where = {};   // node or step
  std::string detail = {};  // one line: row, head and element, or the error
  // Of a tensor: its relative L2 distance to the twin's, rows that differ, and whether the golden's bound
  // alone would have refused it.
  std::optional<double> distance = {};
  std::int64_t rows_differing = 0, rows = 0;
  std::optional<bool> beyond_bound = {};
};

struct ControlResult {
  Finding found;
  bool twin_passed = false;
  std::string twin;  // why it did not
  double seconds = 0;
};

struct Control {
  const char* name;
  const char* perturbed;  // one line
  FaultClass fault;
  const char* where;  // the first node or step at which it must show

  // Exactly one of these. A plant runs in the narrow model; a check does all by itself; a control that is
  // held by a case of a gate names it as it stands in ctest/required.
  std::optional<Plant> plant = {};
  std::function<ControlResult()> check = {};
  const char* held_by = nullptr;

  // Of a plant: the inputs of twin and control, where the model's own do not show the fault; a plant that
  // both carry; and rows that alone may differ (by packed row).
  std::function<void(Values&)> inputs = {};
  std::optional<Plant> both = {};
  std::function<bool(std::int64_t row)> only_rows = {};
};

std::span<const Control> controls();
const Control& control_named(const std::string& name);

ControlResult run_control(const Control& control);
// The twin passed, and the fault was found in its class at its place.
bool detected(const Control& control, const ControlResult& result);

}  // namespace h3
