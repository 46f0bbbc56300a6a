#include "harness/full_model/report_full_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/replay/report_cells.h"
#include "model/digest.h"

namespace h3 {

using namespace report;

namespace {

Json drift_of(const TensorResult* tensor) {
  if (!tensor) return nullptr;
  return {{"tensor", tensor->name}, {"stage", tensor->stage}, {"reason", tensor->reason}};
}

Json error_json(const TensorError& error, double bound) {
  return {{"relative_l2", number(error.relative_l2)},
          {"bound", number(bound)},
          {"max_abs", number(error.max_abs)},
          {"max_abs_index", error.max_abs_index},
          {"cosine", number(error.cosine)}};
}

const char* name_of(TwinBytes twin) {
  return twin == TwinBytes::same ? "same" : twin == TwinBytes::differ ? "differ" : "not asked";
}

std::string drift_line(const Paint& paint, const TensorResult* tensor) {
  if (!tensor) return paint(true, "none");
  return paint(false, fmt::format("{} by {}: {}", tensor->name, tensor->stage, tensor->reason));
}

}  // namespace

std::string to_table(const FullModelReport& report, bool colour) {
  const Paint paint{colour};
  std::string out = fmt::format(
      "full model  config {}  layout {} (S = {})  engine {} ({})\nweights   {}\nbounds    k = {:.1f} "
      "chained, "
      "{:.1f} isolated, ensemble of {}\n"
      "block 0   {}\n\n",
      report.config, report.layout, report.rows, report.engine, report.chain_isa, report.weights,
      report.bounds.k_chained, report.bounds.k_isolated, report.bounds.provider, report.block0);
  out += fmt::format("{:<8} {:<60} {:>10} {:>10} {:>6} {:>10} {:>10} {:>11} {:>10}  {:<8} {}\n", "pass",
                     "tensor", "isolated", "bound", "used", "chained", "bound", "max abs", "at", "provider",
                     "one-provider rule");
  for (const auto& tensor : report.tensors)
    out +=
        fmt::format("{:<8} {:<60} {:>10.3e} {} {:>6.2f} {:>10.3e} {:>10} {:>11.2e} {:>10}  {:<8} {}\n",
                    name_of(tensor.pass), tensor.name, tensor.isolated.relative_l2,
                    paint(tensor.accepted, fmt::format("{:>10.3e}", tensor.bound.isolated)),
                    tensor.isolated.relative_l2 / tensor.bound.isolated, tensor.chained.relative_l2,
                    tensor.bound.chained_is_blind() ? "blind" : fmt::format("{:.3e}", tensor.bound.chained),
                    tensor.chained.max_abs, tensor.chained.max_abs_index,
                    tensor.bound.provider_xxh3_128.empty() ? ""
                    : tensor.has_the_providers_bytes()     ? "same"
                                                           : "differs",
                    tensor.within_single ? "passes" : "exceeded");
  const auto missing = report.missing();
  const auto exceeded = std::ranges::count_if(report.tensors, [](const auto& t) { return !t.accepted; });
  const auto single = std::ranges::count_if(report.tensors, [](const auto& t) { return !t.within_single; });
  out += fmt::format("\nbindings              {}; backward {}\n", bindings_cell(report.forward_bindings),
                     bindings_cell(report.backward_bindings));
  for (const CandidateNodes& nodes : report.candidates)
    out += fmt::format("candidate             {}: {} forward, {} backward\n", nodes.name, nodes.forward,
                       nodes.backward);
  for (const SwappedNode& swapped : report.swapped)
    out += fmt::format("swapped               {} by {}: {} of {} words changed in {} runs\n", swapped.node,
                       swapped.by, swapped.differing, swapped.elements, swapped.runs);
  out += fmt::format("tensors               {} compared, {} beyond their bound, {} missing\n",
                     report.tensors.size(), exceeded, missing.size());
  for (const auto& name : missing) out += fmt::format("missing               {}\n", name);
  out += fmt::format("CPU twin's bytes      {} of {} tensors that it was asked for\n",
                     report.with(TwinBytes::same),
                     report.with(TwinBytes::same) + report.with(TwinBytes::differ));
  out += fmt::format("provider's bytes      {} of {} forward tensors (reported, does not decide)\n",
                     report.same_digests(), report.recorded_digests());
  out += fmt::format(
      "chained bounds        {} blind: the provider's own error exceeds the norm; the isolated ones decide\n",
      std::ranges::count_if(report.tensors, [](const auto& t) { return t.bound.chained_is_blind(); }));
  out += fmt::format("one-provider rule     {} beyond it (reported, does not decide)\n", single);
  out += fmt::format("first_forward_drift:  {}\n", drift_line(paint, report.first_drift(Pass::forward)));
  out += fmt::format("first_backward_drift: {}\n", drift_line(paint, report.first_drift(Pass::backward)));
  out += fmt::format("time                  candidate {:.1f} s, golden {:.1f} s, CPU twin {:.1f} s\n",
                     report.seconds_candidate, report.seconds_golden, report.seconds_twin);
  out += fmt::format("verdict               {}\n",
                     paint(report.accepted(), report.accepted() ? "closed" : "not closed"));
  return out;
}

Json to_json(const FullModelReport& report) {
  Json json = {{"schema", "h3.full_model.v2"},
               {"config", report.config},
               {"layout", {{"name", report.layout}, {"rows", report.rows}}},
               {"engine", report.engine},
               {"chain_isa", report.chain_isa},
               {"weights", report.weights},
               {"block0", report.block0.empty() ? Json() : Json(report.block0)},
               {"bounds",
                {{"sha256", report.bounds.sha256},
                 {"provider", report.bounds.provider},
                 {"k", {{"chained", report.bounds.k_chained}, {"isolated", report.bounds.k_isolated}}},
                 {"inventory", report.bounds.inventory}}},
               {"tensors", Json::array()}};
  for (const auto& tensor : report.tensors)
    json["tensors"].push_back({{"pass", name_of(tensor.pass)},
                               {"name", tensor.name},
                               {"stage", tensor.stage},
                               {"dtype", name_of(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"xxh3_128", tensor.xxh3_128},
                               {"provider_xxh3_128", tensor.bound.provider_xxh3_128},
                               {"chained", error_json(tensor.chained, tensor.bound.chained)},
                               {"isolated", error_json(tensor.isolated, tensor.bound.isolated)},
                               {"twin", name_of(tensor.twin)},
                               {"single",
                                {{"relative_l2", number(tensor.bound.single_relative_l2)},
                                 {"max_abs", number(tensor.bound.single_max_abs)},
                                 {"passes", tensor.within_single}}},
                               {"accepted", tensor.accepted},
                               {"reason", tensor.reason}});
  json["bindings"] = json_of(report.forward_bindings);
  json["bindings"]["backward"] = json_of(report.backward_bindings);
  json["candidates"] = Json::array();
  for (const CandidateNodes& nodes : report.candidates)
    json["candidates"].push_back(
        {{"node", nodes.name}, {"forward", nodes.forward}, {"backward", nodes.backward}});
  json["swapped"] = Json::array();
  for (const SwappedNode& swapped : report.swapped)
    json["swapped"].push_back({{"node", swapped.node},
                               {"by", swapped.by},
                               {"runs", swapped.runs},
                               {"elements", swapped.elements},
                               {"differing", swapped.differing}});
  json["missing"] = report.missing();
  json["drift"] = {{"first_forward_drift", drift_of(report.first_drift(Pass::forward))},
                   {"first_backward_drift", drift_of(report.first_drift(Pass::backward))}};
  json["provider_bytes"] = {{"same", report.same_digests()}, {"recorded", report.recorded_digests()}};
  json["seconds"] = {{"candidate", number(report.seconds_candidate)},
                     {"golden", number(report.seconds_golden)},
                     {"twin", number(report.seconds_twin)}};
  json["verdict"] = report.accepted() ? "closed" : "not closed";
  return json;
}

Json receipt_of(const FullModelReport& report, const std::string& report_text) {
  require(report.accepted(), "full model: a receipt for a run that is not closed");
  return {{"schema", "h3.full_model_receipt.v1"},
          {"gate", "fullmodel"},
          {"verdict", "closed"},
          {"config", report.config},
          {"layout", report.layout},
          {"engine", report.engine},
          {"weights", report.weights},
          {"block0", report.block0},
          {"bounds_sha256", report.bounds.sha256},
          {"inventory", report.bounds.inventory},
          {"tensors", report.tensors.size()},
          {"report_sha256", sha256_hex(report_text)}};
}

}  // namespace h3
