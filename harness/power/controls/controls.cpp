#include <algorithm>
#include <chrono>

#include "harness/full_model/full_model.h"
#include "harness/power/controls/lists.h"
#include "harness/power/controls/narrow_model.h"

namespace h3 {
namespace {

constexpr std::string_view kBackward = ".backward";

ControlResult run_plant(const Control& control) {
  const NarrowModel& model = narrow_model();
  Values inputs = model_inputs(model.layout, model.config, kDefaultSeed);
  if (control.inputs) control.inputs(inputs);
  std::string_view at = control.where;
  if (at.ends_with(kBackward)) at.remove_suffix(kBackward.size());
  Plant plant = *control.plant, both = control.both.value_or(Plant{});
  plant.at = at;
  if (control.both) both.at = at;
  ControlResult result;
  const Finding twin = first_finding(model, inputs, Plant{}, both, {});
  result.twin_passed = twin.fault == FaultClass::none;
  if (!result.twin_passed) result.twin = fmt::format("{}: {}", twin.where, twin.detail);
  result.found = first_finding(model, inputs, plant, both, control.only_rows);
  return result;
}

}  // namespace

std::span<const Control> controls() {
  static const std::vector<Control> all = [] {
    std::vector<Control> list = controls_in_the_graph();
    for (const auto& more : {controls_around_it(), controls_held_by_cases()})
      list.insert(list.end(), more.begin(), more.end());
    return list;
  }();
  return all;
}

const Control& control_named(const std::string& name) {
  const auto found = std::ranges::find_if(controls(), [&](const Control& c) { return c.name == name; });
  require(found != controls().end(), "no control '{}'", name);
  return *found;
}

ControlResult run_control(const Control& control) {
  const auto start = std::chrono::steady_clock::now();
  require(control.plant || control.check, "control {}: held by {}, nothing to run here", control.name,
          control.held_by ? control.held_by : "nothing");
  ControlResult result = control.plant ? run_plant(control) : control.check();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

bool detected(const Control& control, const ControlResult& result) {
  return result.twin_passed && result.found.fault == control.fault && result.found.where == control.where;
}

}  // namespace h3
