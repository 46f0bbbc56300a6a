#include "harness/page/readings.h"

#include <algorithm>
#include <map>

#include "harness/compare/calibrated_bound.h"
#include "harness/power/false_alarms.h"
#include "model/error.h"
#include "model/graph.h"

namespace h3::page {
namespace {

double number(const Json& value) { return value.is_null() ? kNone : value.get<double>(); }

std::string words_of(const Json& value) { return value.is_string() ? value.get<std::string>() : ""; }

// "attn.to_q.weight" -> "q_proj", from the graphs; a node's own name stays.
std::string node_of(const std::string& name, const Graph& graph) {
  for (const Node& node : graph.nodes)
    for (const std::string& parameter : node.parameters)
      if (parameter == name || parameter == graph.name + "." + name) return node.name;
  return name;
}

Place place_of(const std::string& name) {
  static const Config config;
  for (const auto& [prefix, part, graph] :
       {std::tuple{std::string("transformer_blocks."), Place::Part::block, transformer_block(config, 0)},
        {std::string("token_refiner.refiner_blocks."), Place::Part::refiner, refiner_block(config, 0)}}) {
    if (!name.starts_with(prefix)) continue;
    const std::size_t dot = name.find('.', prefix.size());
    const std::string digits = name.substr(prefix.size(), dot - prefix.size());
    if (dot == std::string::npos || digits.empty() || digits.size() > 3 ||
        !std::ranges::all_of(digits, ::isdigit))
      break;
    return {part, std::stoi(digits), node_of(name.substr(dot + 1), graph)};
  }
  for (const Graph& graph :
       {step_tables(config), model_entry(config), packed_sequence(config), model_exit(config)})
    if (const std::string node = node_of(name, graph); node != name) return {Place::Part::boundary, -1, node};
  return {Place::Part::boundary, -1, name};
}

std::string without_block(const std::string& name, const Place& place) {
  if (place.part == Place::Part::boundary) return name;
  const char* prefix =
      place.part == Place::Part::block ? "transformer_blocks." : "token_refiner.refiner_blocks.";
  return name.substr(std::string(prefix).size() + std::to_string(place.index).size() + 1);
}

// ---- replay

std::string drift_text(const Json& drift) {
  if (drift.is_null()) return "none";
  std::string text = drift.at("node").get<std::string>();
  for (const char* key : {"row", "head", "element"})
    if (const auto at = drift.at(key).get<std::int64_t>(); at >= 0) text += fmt::format(", {} {}", key, at);
  const std::string detail = words_of(drift.at("detail"));
  return detail.empty() ? text : text + ": " + detail;
}

void add_drifts(TensorReport& report, const Json& drifts) {
  for (const auto& [name, drift] : drifts.items()) {
    const bool checked = drift.at("checked");
    report.drifts.push_back({name, checked ? drift_text(drift.at("first")) : "not checked",
                             !checked || drift.at("first").is_null()});
  }
}

Bytes bytes_of(bool checked, const Json& drift) {
  return !checked ? Bytes::not_compared : drift.is_null() ? Bytes::same : Bytes::differ;
}

// The rule behind a bound gives the provider's own error back (README, "What ./run block0 shows").
std::optional<Distance> golden_of(const Json& golden, Pass pass, const std::string& from) {
  if (golden.is_null()) return std::nullopt;
  Distance distance{
      .error = number(golden.at("relative_l2")), .bound = number(golden.at("bound")), .from = from};
  const bool forward = pass == Pass::forward;
  const double own =
      (distance.bound - (forward ? 1e-3 : 5e-3)) / (forward ? kForwardFactor : kBackwardFactor);
  if (own > 0) distance.provider = {own, own};
  return distance;
}

void read_replay(const Json& json, std::size_t source, TensorReport& report) {
  report.graph = json.at("graph");
  report.config = "released";
  report.provider = json.at("provider").at("environment");
  report.accepted = json.at("accepted");
  const bool recorded = json.at("provider").at("recorded");
  add_drifts(report, json.at("drift"));
  const auto checked = [&](const Json& drifts, const char* name) {
    return drifts.at(name).at("checked").get<bool>();
  };
  const bool repeated = checked(json.at("drift"), "first_repeat_drift"),
             batched = checked(json.at("drift"), "first_batch_drift");
  for (std::size_t i = 0; i < json.at("nodes").size(); ++i) {
    const Json& node = json["nodes"][i];
    Reading one;
    one.name = node.at("node");
    one.digest = node.at("xxh3_128");
    one.from = fmt::format("{}/nodes/{}", source, i);
    one.place = place_of(report.graph + "." + one.name);
    one.chained = golden_of(node.at("golden"), Pass::forward, one.from + "/golden");
    if (recorded && !node.at("provider").is_null()) {
      one.provider = node["provider"].at("equal").get<bool>() ? Bytes::same : Bytes::differ;
      if (node["provider"].at("isolated").get<bool>()) one.isolated_bytes = one.provider;
    }
    one.repeat = bytes_of(repeated, node.at("repeat_drift"));
    one.batch = bytes_of(batched, node.at("batch_drift"));
    if (one.chained && !node["golden"].at("accepted").get<bool>()) {
      one.accepted = false;
      one.reason = words_of(node["golden"].at("reason"));
    }
    report.readings.push_back(std::move(one));
  }
  const Json& backward = json.at("backward");
  if (backward.is_null()) return;
  add_drifts(report, backward.at("drift"));
  std::map<std::string, std::pair<Bytes, Bytes>> bits;  // by node: repeat, batch rows
  const bool grad_repeated = checked(backward.at("drift"), "first_grad_repeat_drift"),
             grad_batched = checked(backward.at("drift"), "first_grad_batch_drift");
  for (const Json& node : backward.at("nodes"))
    bits[node.at("node")] = {bytes_of(grad_repeated, node.at("repeat_drift")),
                             bytes_of(grad_batched, node.at("batch_drift"))};
  for (std::size_t i = 0; i < backward.at("gradients").size(); ++i) {
    const Json& gradient = backward["gradients"][i];
    const std::string value = gradient.at("value");
    Reading one;
    one.pass = Pass::backward;
    one.digest = gradient.at("xxh3_128");
    one.from = fmt::format("{}/backward/gradients/{}", source, i);
    const std::string whole = value.starts_with(report.graph + ".") ? value : report.graph + "." + value;
    one.place = place_of(whole);
    one.name = without_block(whole, one.place);
    one.chained = golden_of(gradient.at("golden"), Pass::backward, one.from + "/golden");
    if (const Json& provider = gradient.at("provider"); !provider.is_null())
      one.provider = !provider.at("repeats").get<bool>()              ? Bytes::not_repeatable
                     : provider.at("verdict").at("equal").get<bool>() ? Bytes::same
                                                                      : Bytes::differ;
    if (const auto by = bits.find(words_of(gradient.at("node"))); by != bits.end())
      std::tie(one.repeat, one.batch) = by->second;
    if (one.chained && !gradient["golden"].at("accepted").get<bool>()) {
      one.accepted = false;
      one.reason = words_of(gradient["golden"].at("reason"));
    }
    report.readings.push_back(std::move(one));
  }
}

// ---- full model

std::optional<std::pair<double, double>> band_of(const Ensemble* ensemble, Pass pass, const std::string& name,
                                                 Measure measure) {
  if (!ensemble) return std::nullopt;
  for (const EnsembleTensor& tensor : ensemble->tensors) {
    if (tensor.pass != pass || tensor.name != name) continue;
    const auto [low, high] =
        std::ranges::minmax(tensor.errors, {}, [&](const auto& errors) { return errors.of(measure); });
    return std::pair{low.of(measure), high.of(measure)};
  }
  return std::nullopt;
}

void read_full_model(const Json& json, std::size_t source, const std::vector<Ensemble>& ensembles,
                     TensorReport& report) {
  report.whole_model = true;
  report.config = json.at("config");
  report.graph = report.config + " model";
  report.provider = json.at("bounds").at("provider");
  report.accepted = json.at("verdict") == "closed";
  const auto known = std::ranges::find_if(ensembles, [&](const Ensemble& one) {
    return one.config == report.config && one.layout == report.layout;
  });
  const Ensemble* ensemble = known == ensembles.end() ? nullptr : &*known;
  for (const auto& [name, drift] : json.at("drift").items())
    report.drifts.push_back({name,
                             drift.is_null() ? "none"
                                             : fmt::format("{}: {}", drift.at("tensor").get<std::string>(),
                                                           drift.at("reason").get<std::string>()),
                             drift.is_null()});
  for (const Json& name : json.at("missing"))
    report.drifts.push_back({"missing", name.get<std::string>(), false});
  for (std::size_t i = 0; i < json.at("tensors").size(); ++i) {
    const Json& tensor = json["tensors"][i];
    const std::string name = tensor.at("name");
    Reading one;
    one.pass = tensor.at("pass") == "forward" ? Pass::forward : Pass::backward;
    one.place = place_of(name);
    one.digest = tensor.at("xxh3_128");
    one.accepted = tensor.at("accepted");
    if (!one.accepted) one.reason = words_of(tensor.at("reason"));
    one.from = fmt::format("{}/tensors/{}", source, i);
    one.name = without_block(name, one.place);
    const auto distance = [&](const char* key, Measure measure) {
      const Json& found = tensor.at(key);
      return Distance{number(found.at("relative_l2")), number(found.at("bound")),
                      band_of(ensemble, one.pass, name, measure), one.from + "/" + key};
    };
    one.chained = distance("chained", Measure::chained);
    one.isolated = distance("isolated", Measure::isolated);
    if (const std::string recorded = words_of(tensor.at("provider_xxh3_128")); !recorded.empty())
      one.provider = recorded == one.digest ? Bytes::same : Bytes::differ;
    report.readings.push_back(std::move(one));
  }
}

}  // namespace

std::string TensorReport::subject() const { return fmt::format("{}, {} (S = {})", graph, layout, rows); }

std::vector<TensorReport> tensor_reports(const Inputs& inputs) {
  std::vector<TensorReport> reports;
  for (std::size_t i = 0; i < inputs.sources.size(); ++i) {
    const Source& source = inputs.sources[i];
    const bool replay = source.schema == "h3.replay.v1";
    if (!replay && source.schema != "h3.full_model.v2") continue;
    TensorReport report{.source = i};
    reading(source, [&](const Json& json) {
      report.layout = json.at("layout").at("name");
      report.rows = json.at("layout").at("rows");
      report.engine = json.at("engine");
      report.device = json.at("chain_isa");
      report.weights = json.at("weights");
      replay ? read_replay(json, i, report) : read_full_model(json, i, inputs.ensembles, report);
    });
    reports.push_back(std::move(report));
  }
  return reports;
}

std::vector<std::string> block_nodes() {
  std::vector<std::string> names;
  for (const Node& node : transformer_block(Config(), 0).nodes) names.push_back(node.name);
  return names;
}

}  // namespace h3::page
