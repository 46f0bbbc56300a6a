#include <fmt/format.h>

#include <algorithm>

#include "harness/replay/report.h"
#include "harness/replay/report_cells.h"

namespace h3 {

using namespace report;

namespace {

std::string verdict_cell(const Paint& paint, const GradientResult& gradient) {
  if (!gradient.provider) return "no record";
  const auto& verdict = gradient.provider->bytes;
  if (!verdict) return "provider does not repeat";
  return paint(verdict->equal, provider_cell(*verdict, gradient.shape[0]));
}

// "attn.to_q.weight" of "transformer_blocks.0.attn.to_q.weight".
std::string short_name(const BackwardReport& report, const std::string& value) {
  return value.starts_with(report.graph + ".") ? value.substr(report.graph.size() + 1) : value;
}

}  // namespace

std::string to_table(const BackwardReport& report, bool colour) {
  const Paint paint{colour};
  const auto row = [](const std::string& value, const std::string& node, const std::string& rfc_row,
                      const std::string& binding, const std::string& error, const std::string& seconds,
                      const std::string& digest, const std::string& provider) {
    return fmt::format("{:<23} {:<17} {:<24} {:<10} {} {:>7}  {:<18} {}\n", value, node, rfc_row, binding,
                       error, seconds, digest, provider);
  };
  std::string out = fmt::format("backward of {}  gradient of the output synthetic, seed {}\nprovider  {}\n\n",
                                report.graph, report.request.seed, report.provider);
  out +=
      row("gradient of", "by", "RFC row", "binding",
          fmt::format("{:>11} {:>11} {:>10}", "error", "bound", "max abs"), "s", "digest (xxh3)", "provider");
  for (const auto& gradient : report.gradients) {
    const auto by = std::ranges::find(report.nodes, gradient.node, &BackwardNode::node);
    const bool given = by == report.nodes.end();
    out += row(short_name(report, gradient.value), given ? "given" : gradient.node, gradient.row,
               given ? "" : name_of(by->binding), error_cells(gradient.golden),
               given ? "" : fmt::format("{:.2f}", by->seconds), gradient.xxh3_128.substr(0, 16),
               verdict_cell(paint, gradient));
  }
  out += fmt::format("\nbindings                 {}\n", bindings_cell(report.bindings()));
  const auto line = [&](const char* name, const std::optional<Drift>& drift, bool checked,
                        const char* why_not) {
    out += fmt::format("{:<25}{}\n", name, drift_cell(paint, drift, checked, why_not));
  };
  line("first_grad_drift:", report.first_drift(), report.provider_recorded, "not comparable");
  line("first_grad_golden_drift:", report.first_golden_drift(), report.request.golden,
       "not checked (--no-golden)");
  line("first_grad_repeat_drift:", report.first_repeat_drift(), report.repeated(), "not checked (--repeat)");
  line("first_grad_batch_drift:", report.first_batch_drift(), report.request.batch_rows,
       "not checked (--no-batch-rows)");
  if (report.permuted_rows_changed && report.permuted_leaves_changed)
    out += fmt::format(
        "{:<25}{} of {} rows of hidden_states changed, {} sums over rows\n", "row permutation:",
        paint(*report.permuted_rows_changed == 0, std::to_string(*report.permuted_rows_changed)), report.rows,
        paint(*report.permuted_leaves_changed == 0, std::to_string(*report.permuted_leaves_changed)));
  std::vector<std::pair<std::string, const SampledUlp*>> ulp;
  for (const auto& gradient : report.gradients)
    if (gradient.provider && gradient.provider->ulp)
      ulp.emplace_back(short_name(report, gradient.value), &*gradient.provider->ulp);
  if (!ulp.empty()) out += fmt::format("{:<25}{}\n", "ulp to the golden:", ulp_cell(ulp));
  out += fmt::format("time                     candidate {:.1f} s, golden {:.1f} s\n",
                     report.seconds_candidate, report.seconds_golden);
  out += fmt::format("verdict                  {}\n",
                     paint(report.accepted(), report.accepted() ? "accepted" : "NOT accepted"));
  return out;
}

Json to_json(const BackwardReport& report) {
  Json json = {{"provider", {{"recorded", report.provider_recorded}, {"environment", report.provider}}}};
  for (const auto& gradient : report.gradients) {
    Json entry = {{"value", gradient.value},
                  {"node", gradient.node.empty() ? Json() : Json(gradient.node)},
                  {"row", gradient.row.empty() ? Json() : Json(gradient.row)},
                  {"dtype", name_of(gradient.dtype)},
                  {"shape", gradient.shape},
                  {"xxh3_128", gradient.xxh3_128},
                  {"sha256", gradient.sha256},
                  {"golden", json_of(gradient.golden)},
                  {"provider", nullptr},
                  {"ulp", nullptr}};
    if (gradient.provider) {
      const auto& bytes = gradient.provider->bytes;
      entry["provider"] = {{"repeats", bytes.has_value()}, {"verdict", bytes ? json_of(*bytes) : Json()}};
      entry["ulp"] = json_of(gradient.provider->ulp);
    }
    json["gradients"].push_back(std::move(entry));
  }
  for (const auto& node : report.nodes)
    json["nodes"].push_back({{"node", node.node},
                             {"row", node.row},
                             {"binding", name_of(node.binding)},
                             {"seconds", number(node.seconds)},
                             {"repeat_drift", json_of(node.repeat_drift)},
                             {"batch_drift", json_of(node.batch_drift)}});
  json["bindings"] = json_of(report.bindings());
  const auto finding = [&](const char* name, bool checked, const std::optional<Drift>& drift) {
    json["drift"][name] = {{"checked", checked}, {"first", json_of(drift)}};
  };
  finding("first_grad_drift", report.provider_recorded, report.first_drift());
  finding("first_grad_golden_drift", report.request.golden, report.first_golden_drift());
  finding("first_grad_repeat_drift", report.repeated(), report.first_repeat_drift());
  finding("first_grad_batch_drift", report.request.batch_rows, report.first_batch_drift());
  const auto count = [](const std::optional<std::int64_t>& changed) {
    return changed ? Json(*changed) : Json();
  };
  json["permuted_rows_changed"] = count(report.permuted_rows_changed);
  json["permuted_leaves_changed"] = count(report.permuted_leaves_changed);
  json["seconds"] = {{"candidate", number(report.seconds_candidate)},
                     {"golden", number(report.seconds_golden)}};
  json["accepted"] = report.accepted();
  return json;
}

Json to_json(const ReplayReport& report, const BackwardReport& backward) {
  Json json = to_json(report);
  json["backward"] = to_json(backward);
  json["accepted"] = report.accepted() && backward.accepted();
  return json;
}

}  // namespace h3
