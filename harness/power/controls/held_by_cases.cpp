#include "harness/power/controls/lists.h"

namespace h3 {

std::vector<Control> controls_held_by_cases() {
  using enum FaultClass;
  const auto held = [](const char* name, const char* perturbed, FaultClass fault, const char* where,
                       const char* by) {
    Control control{name, perturbed, fault, where};
    control.held_by = by;
    return control;
  };
  return {
      held("H-C3", "packed rows permuted with their positions", none, "",
           "block0/PermutedBlock.changes_no_row/tiny_cpu"),
      held("graph_vs_eager", "a captured graph beside direct launches", not_repeatable, "q_proj",
           "block0_cuda/CapturedBlock.equals_node_by_node/tiny_cuda_q_proj"),
      held("tensor_offsets_invalid", "a tensor's bytes overlap another's", rejection, "fixture_io",
           "host/SafetensorsLies.are_refused_with_their_reason/overlap"),
      held("control_characters_in_message", "a failure text that XML cannot hold", infrastructure, "report",
           "host/FalseGreens.end_red/control_characters"),
      held("filter_matches_nothing", "a selection that matches no case", infrastructure, "report",
           "host/FalseGreens.end_red/no_such_suite"),
      held("slow_listing", "cases are listed without a device and at once", infrastructure, "report",
           "host/Listing.waits_for_no_device/h3_conformance"),
      held("candidate_hangs", "one case never returns", infrastructure, "report",
           "host/FalseGreens.end_red/hangs"),
      held("nonfinite_metric_in_json", "a metric that is NaN", infrastructure, "report",
           "host/ReplayJson.holds_no_bare_nan/report"),
  };
}

}  // namespace h3
