#include "harness/report_full_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/report_parts.h"
#include "model/digest.h"

namespace h3 {

using namespace report;

namespace {

Json drift_of(const TensorResult* tensor) {
  if (!tensor) return nullptr;
  return {{"tensor", tensor->name}, {"stage", tensor->stage}, {"reason", tensor->reason}};
}

std::string drift_line(const Paint& paint, const TensorResult* tensor) {
  if (!tensor) return paint(true, "none");
  return paint(false, fmt::format("{} by {}: {}", tensor->name, tensor->stage, tensor->reason));
}

}  // namespace

std::string to_table(const FullModelReport& report, bool colour) {
  const Paint paint{colour};
  std::string out = fmt::format(
      "full model  config {}  layout {} (S = {})  engine {} ({})\nweights   {}\nbounds    k = {:.1f}, "
      "ensemble of {}\n"
      "block 0   {}\n\n",
      report.config, report.layout, report.rows, report.engine, report.chain_isa, report.weights,
      report.bounds.k, report.bounds.provider, report.block0);
  out += fmt::format("{:<8} {:<60} {:>10} {:>10} {:>6} {:>10} {:>10} {:>12}  {}\n", "pass", "tensor", "error",
                     "bound", "used", "max abs", "at", "1 - cosine", "one-provider rule");
  for (const auto& tensor : report.tensors)
    out += fmt::format("{:<8} {:<60} {:>10.3e} {} {:>6.2f} {:>10.2e} {:>10} {:>12.2e}  {}\n",
                       name_of(tensor.pass), tensor.name, tensor.relative_l2,
                       paint(tensor.accepted, fmt::format("{:>10.3e}", tensor.bound.relative_l2)),
                       tensor.relative_l2 / tensor.bound.relative_l2, tensor.max_abs, tensor.max_abs_index,
                       1 - tensor.cosine, tensor.within_single ? "passes" : "exceeded");
  const auto missing = report.missing();
  const auto exceeded = std::ranges::count_if(report.tensors, [](const auto& t) { return !t.accepted; });
  const auto single = std::ranges::count_if(report.tensors, [](const auto& t) { return !t.within_single; });
  out += fmt::format("\nbindings              {} of {} row\n", report.nodes_bound_to_row, report.nodes);
  out += fmt::format("tensors               {} compared, {} beyond their bound, {} missing\n",
                     report.tensors.size(), exceeded, missing.size());
  for (const auto& name : missing) out += fmt::format("missing               {}\n", name);
  out += fmt::format("one-provider rule     {} beyond it (reported, does not decide)\n", single);
  out += fmt::format("first_forward_drift:  {}\n", drift_line(paint, report.first_drift(Pass::forward)));
  out += fmt::format("first_backward_drift: {}\n", drift_line(paint, report.first_drift(Pass::backward)));
  out += fmt::format("time                  candidate {:.1f} s, golden {:.1f} s\n", report.seconds_candidate,
                     report.seconds_golden);
  out += fmt::format("verdict               {}\n",
                     paint(report.accepted(), report.accepted() ? "closed" : "not closed"));
  return out;
}

Json to_json(const FullModelReport& report) {
  Json json = {{"schema", "h3.full_model.v1"},
               {"config", report.config},
               {"layout", {{"name", report.layout}, {"rows", report.rows}}},
               {"engine", report.engine},
               {"chain_isa", report.chain_isa},
               {"weights", report.weights},
               {"block0", report.block0.empty() ? Json() : Json(report.block0)},
               {"bounds",
                {{"sha256", report.bounds.sha256},
                 {"provider", report.bounds.provider},
                 {"k", report.bounds.k},
                 {"inventory", report.bounds.inventory}}},
               {"tensors", Json::array()}};
  for (const auto& tensor : report.tensors)
    json["tensors"].push_back({{"pass", name_of(tensor.pass)},
                               {"name", tensor.name},
                               {"stage", tensor.stage},
                               {"dtype", name_of(tensor.dtype)},
                               {"shape", tensor.shape},
                               {"xxh3_128", tensor.xxh3_128},
                               {"relative_l2", number(tensor.relative_l2)},
                               {"bound", number(tensor.bound.relative_l2)},
                               {"max_abs", number(tensor.max_abs)},
                               {"max_abs_index", tensor.max_abs_index},
                               {"cosine", number(tensor.cosine)},
                               {"single",
                                {{"relative_l2", number(tensor.bound.single_relative_l2)},
                                 {"max_abs", number(tensor.bound.single_max_abs)},
                                 {"passes", tensor.within_single}}},
                               {"accepted", tensor.accepted},
                               {"reason", tensor.reason}});
  json["bindings"] = {{"row", report.nodes_bound_to_row}, {"nodes", report.nodes}};
  json["missing"] = report.missing();
  json["drift"] = {{"first_forward_drift", drift_of(report.first_drift(Pass::forward))},
                   {"first_backward_drift", drift_of(report.first_drift(Pass::backward))}};
  json["seconds"] = {{"candidate", number(report.seconds_candidate)},
                     {"golden", number(report.seconds_golden)}};
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
