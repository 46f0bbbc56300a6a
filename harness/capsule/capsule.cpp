#include "harness/capsule/capsule.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "fixtures/hdf5.h"
#include "harness/compare/fault_class.h"
#include "harness/compare/first_difference.h"
#include "harness/replay/report_cells.h"
#include "harness/report/this_process.h"
#include "kernels/numerics/chain.h"
#include "model/config_json.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;
using report::Paint;

constexpr const char* kSchema = "h3.capsule.v1";
constexpr int kDeflate = 9;

Json description_of(const Capsule& capsule) {
  const Reduced& reduced = capsule.reduced;
  Json json = {{"schema", kSchema},
               {"graph", capsule.graph},
               {"value", capsule.value},
               {"row", reduced.row},
               {"head", reduced.head},
               {"column", reduced.column},
               {"rows", reduced.rows},
               {"columns", reduced.columns},
               {"class", capsule.fault},
               {"declared_order", declared_order(capsule.call())},
               {"reduced", reduced.steps},
               {"cut_short", reduced.cut_short},
               {"environment", capsule.environment},
               {"replay", "h3 capsule replay FILE"}};
  for (const NodeCall& call : reduced.calls)
    json["calls"].push_back({{"node", call.node.name},
                             {"rfc_row", call.node.row},
                             {"inputs", call.node.inputs},
                             {"parameters", call.node.parameters},
                             {"cols", call.node.cols},
                             {"per_row", call.node.per_row},
                             {"gradient_of", call.gradient_of},
                             {"config", config_to_json(call.config)}});
  return json;
}

Tensor tensor_of(const Hdf5Reader& file, const std::string& dataset) {
  Tensor tensor = file.read(dataset);
  require(!tensor.shape().empty(), "{}: damaged: {} is a single word", file.path(), dataset);
  return tensor;
}

NodeCall call_of(const Json& json, const Hdf5Reader& file, const std::string& root) {
  NodeCall call;
  Node& node = call.node;
  json.at("node").get_to(node.name);
  json.at("rfc_row").get_to(node.row);
  json.at("inputs").get_to(node.inputs);
  json.at("parameters").get_to(node.parameters);
  json.at("cols").get_to(node.cols);
  json.at("per_row").get_to(node.per_row);
  json.at("gradient_of").get_to(call.gradient_of);
  call.config = config_from_json(json.at("config"), file.path());
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    call.inputs.push_back(tensor_of(file, fmt::format("{}/inputs/{}", root, i)));
  for (std::size_t i = 0; i < node.parameters.size(); ++i)
    call.parameters.push_back(tensor_of(file, fmt::format("{}/parameters/{}", root, i)));
  if (call.backward()) call.gradient = tensor_of(file, root + "/gradient");
  return call;
}

// What the strict row leaves to whoever calls it: as many operands as the node takes, and a result of the
// size that the capsule has (of a backward, that of the gradient).
void require_fits(const NodeCall& call, const Tensor& result, const std::string& path) {
  const Node& node = call.node;
  const auto is_this = [&](const Node& known) {
    return known.name == node.name && known.row == node.row && known.inputs == node.inputs &&
           known.parameters.size() == node.parameters.size();
  };
  require(std::ranges::any_of(transformer_block({}, 0).nodes, is_this) ||
              std::ranges::any_of(refiner_block({}, 0).nodes, is_this),
          "{}: damaged: no block has a node '{}' of these operands", path, node.name);
  const std::int64_t rows = call.inputs[0].shape()[0] * (node.name == "adaln_projection" ? kTags : 1),
                     elements = (call.backward() ? call.gradient : result).elements();
  require(node.cols > 0 && rows > 0 && elements % rows == 0 && elements / rows == node.cols,
          "{}: damaged: {} rows of node '{}', {} wide, are not its {} elements", path, rows, node.name,
          node.cols, elements);
}

Capsule capsule_from(const Json& json, const Hdf5Reader& file) {
  require(json.value("schema", "") == kSchema, "{}: no capsule (schema {})", file.path(), kSchema);
  Capsule capsule;
  Reduced& reduced = capsule.reduced;
  json.at("graph").get_to(capsule.graph);
  json.at("value").get_to(capsule.value);
  json.at("class").get_to(capsule.fault);
  json.at("row").get_to(reduced.row);
  json.at("head").get_to(reduced.head);
  json.at("column").get_to(reduced.column);
  json.at("rows").get_to(reduced.rows);
  json.at("columns").get_to(reduced.columns);
  json.at("reduced").get_to(reduced.steps);
  json.at("cut_short").get_to(reduced.cut_short);
  capsule.environment = json.at("environment");
  capsule.environment.at("candidate").get<std::string>();
  const Json& calls = json.at("calls");
  for (std::size_t i = 0; i < calls.size(); ++i)
    reduced.calls.push_back(call_of(calls[i], file, fmt::format("/calls/{}", i)));
  reduced.expected = tensor_of(file, "/expected");
  reduced.found = tensor_of(file, "/found");
  require(!reduced.calls.empty() && !reduced.rows.empty() && !reduced.columns.empty() &&
              reduced.found.dtype() == reduced.expected.dtype() &&
              reduced.expected.elements() ==
                  std::int64_t(reduced.rows.size()) * std::int64_t(reduced.columns.size()),
          "{}: damaged: expected, found and their places do not fit", file.path());
  for (const NodeCall& call : reduced.calls) require_fits(call, reduced.expected, file.path());
  return capsule;
}

std::string hex(const Tensor& x, std::int64_t i) {
  std::uint64_t word = 0;
  std::memcpy(&word, x.bytes() + std::size_t(i) * size_of(x.dtype()), size_of(x.dtype()));
  return fmt::format("{:0{}x}", word, 2 * size_of(x.dtype()));
}

struct Word {
  std::int64_t index, row, column;
};

// The words that differ, at most so many, with their places in the whole.
std::vector<Word> differing_words(const Reduced& reduced, const Tensor& expected, const Tensor& found,
                                  std::size_t most) {
  std::vector<Word> words;
  const std::size_t width = size_of(expected.dtype());
  const auto columns = std::int64_t(reduced.columns.size());
  for (std::int64_t i = 0; i < expected.elements() && words.size() < most; ++i)
    if (std::memcmp(expected.bytes() + std::size_t(i) * width, found.bytes() + std::size_t(i) * width, width))
      words.push_back({i, reduced.rows[std::size_t(i / columns)], reduced.columns[std::size_t(i % columns)]});
  return words;
}

}  // namespace

Drift Capsule::drift(const Tensor& expected, const Tensor& found) const {
  const Comparison difference = compare(expected, found);
  const auto words = differing_words(reduced, expected, found, 1);
  require(!words.empty(), "capsule: its words do not differ");
  const Word& first = words.front();
  const std::int64_t dim = call().config.attention_head_dim;
  return {value, first.row, reduced.head < 0 ? -1 : first.column / dim, first.column,
          fmt::format("expected {}, got {}, {} of {} words differ", expected.at(first.index),
                      found.at(first.index), difference.differing, difference.elements)};
}

Capsule capsule_of(const std::string& graph, const Calls& calls, const Tensor& expected, const Tensor& found,
                   Json environment, const MakeExecution& candidate) {
  Capsule capsule{graph, "", "", std::move(environment), {}};
  capsule.reduced = reduced(calls, expected, found, candidate);
  const NodeCall& call = capsule.call();
  capsule.value = call.backward() ? "gradient." + call.gradient_of : call.node.name;
  capsule.fault = name_of(classify(expected, found.reshaped(expected.shape())));
  capsule.environment["chain_isa"] = name_of(numerics::chosen_chain_isa());
  capsule.environment["source_trees"] = source_trees();
  return capsule;
}

std::string write_capsule(const std::string& folder, const Capsule& capsule) {
  std::filesystem::create_directories(folder);
  const std::string path = fmt::format("{}/{}.{}.h5", folder, capsule.graph, capsule.value);
  {
    Hdf5Writer file(path, kDeflate);
    const std::string text = description_of(capsule).dump();
    file.write_vector("description",
                      std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()),
                      {std::int64_t(text.size())});
    for (std::size_t i = 0; i < capsule.reduced.calls.size(); ++i) {
      const NodeCall& call = capsule.reduced.calls[i];
      const std::string root = fmt::format("calls/{}", i);
      for (std::size_t j = 0; j < call.inputs.size(); ++j)
        file.write(fmt::format("{}/inputs/{}", root, j), call.inputs[j]);
      for (std::size_t j = 0; j < call.parameters.size(); ++j)
        file.write(fmt::format("{}/parameters/{}", root, j), call.parameters[j]);
      if (call.backward()) file.write(root + "/gradient", call.gradient);
    }
    file.write("expected", capsule.reduced.expected);
    file.write("found", capsule.reduced.found);
    file.close();
  }
  const auto size = std::filesystem::file_size(path);
  if (size > kCapsuleBytes) std::filesystem::remove(path);
  require(size <= kCapsuleBytes, "{}: {} bytes, a capsule has at most {}", path, size, kCapsuleBytes);
  return path;
}

Capsule read_capsule(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  require(!error, "{}: cannot read: {}", path, error.message());
  require(size <= kCapsuleBytes, "{}: {} bytes, a capsule has at most {}", path, size, kCapsuleBytes);
  const Hdf5Reader file(path);
  require(file.contains("/description"), "{}: no capsule (dataset description)", path);
  const auto text = file.read_vector<std::uint8_t>("/description");
  file.verify("/description");
  try {
    return capsule_from(Json::parse(text.begin(), text.end()), file);
  } catch (const nlohmann::json::exception& damage) {
    fail("{}: damaged: {}", path, damage.what());
  }
}

CapsuleReplay replay_capsule(const Capsule& capsule, const std::string& engine) {
  const Reduced& reduced = capsule.reduced;
  const Config& config = capsule.call().config;
  CapsuleReplay replay;
  replay.expected = run(reduced.calls, *cpu_execution(config)).reshaped(reduced.expected.shape());
  replay.as_recorded = identical(replay.expected, reduced.expected);
  Calls wide;
  for (const NodeCall& call : reduced.calls) wide.push_back(widened(call));
  replay.golden = run(wide, *golden_execution(true, config)).reshaped(reduced.expected.shape());
  replay.engine = capsule.environment.value("candidate", "");
  replay.found = reduced.found;
  if (!engine.empty()) {
    const auto asked = engine_named(engine, config);
    replay.engine = asked->name();
    replay.found = run(reduced.calls, *asked).reshaped(reduced.expected.shape());
  }
  if (!identical(replay.expected, replay.found)) replay.drift = capsule.drift(replay.expected, replay.found);
  if (replay.drift && reduced.calls.size() == 1 && !(reduced.cut_short && engine.empty()))
    replay.looks_like = appearance_of(capsule.call(), replay.found);
  return replay;
}

std::string to_text(const Capsule& capsule, const CapsuleReplay& replay, bool colour) {
  const Paint paint{colour};
  const Reduced& reduced = capsule.reduced;
  const auto line = [](const char* name, const std::string& text) {
    return fmt::format("{:<10}{}\n", name, text);
  };
  std::string nodes;
  for (const NodeCall& call : reduced.calls)
    nodes += fmt::format("{}{} ({})", nodes.empty() ? "" : " + ", call.node.name, call.node.row);
  std::string out = line("capsule", fmt::format("{} {}, by {}", capsule.graph, capsule.value, nodes));
  out += line("found", "by " + replay.engine);
  for (const char* key : {"layout", "weights", "runtime", "dump"})
    if (capsule.environment.contains(key))
      out += line(key, capsule.environment[key].is_string() ? capsule.environment[key].get<std::string>()
                                                            : capsule.environment[key].dump());
  out += line("class", capsule.fault);
  out += line("declared", declared_order(capsule.call()));
  for (const std::string& step : reduced.steps)
    out += line(&step == &reduced.steps[0] ? "reduced" : "", step);
  out += fmt::format("\n{:>6} {:>6}  {:>8} {:>13}  {:>8} {:>13}  {:>15}\n", "row", "column", "expected", "",
                     "found", "", "golden");
  constexpr std::size_t kShown = 8;
  for (const Word& word : differing_words(reduced, replay.expected, replay.found, kShown))
    out +=
        fmt::format("{:>6} {:>6}  {:>8} {:>13.7g}  {:>8} {:>13.7g}  {:>15.9g}\n", word.row, word.column,
                    hex(replay.expected, word.index), replay.expected.at(word.index),
                    hex(replay.found, word.index), replay.found.at(word.index), replay.golden.at(word.index));
  out += "\n";
  out += line("expected",
              paint(replay.as_recorded,
                    replay.as_recorded
                        ? fmt::format("{} words, recomputed here by the CPU twin ({})",
                                      replay.expected.elements(), name_of(numerics::chosen_chain_isa()))
                        : "this build's row gives other words than the capsule's"));
  if (replay.drift && reduced.cut_short)
    out += line("looks", "not looked at: the operands are cut short, found is of the whole");
  else if (replay.drift && reduced.calls.size() == 1)
    out += line("looks", replay.looks_like
                             ? fmt::format("like {} ({} of {} other ways give these {} words, too)",
                                           replay.looks_like->as, replay.looks_like->others,
                                           replay.looks_like->tried - 1, replay.looks_like->words)
                             : "like none of the ways that are known");
  out += line("verdict",
              paint(!replay.drift, replay.drift ? "drift: " + replay.drift->to_string() : "no drift"));
  return out;
}

Json to_json(const Capsule& capsule, const CapsuleReplay& replay) {
  Json json = description_of(capsule);
  json["schema"] = "h3.capsule_replay.v1";
  json["found_by"] = replay.engine;
  json["expected_as_recorded"] = replay.as_recorded;
  json["drift"] = report::json_of(replay.drift);
  json["looks_like"] = replay.looks_like ? Json{{"way", replay.looks_like->as},
                                                {"others", replay.looks_like->others},
                                                {"tried", replay.looks_like->tried},
                                                {"words", replay.looks_like->words}}
                                         : Json();
  json["words"] = Json::array();
  for (const Word& word : differing_words(capsule.reduced, replay.expected, replay.found, 64))
    json["words"].push_back({{"row", word.row},
                             {"column", word.column},
                             {"expected", hex(replay.expected, word.index)},
                             {"found", hex(replay.found, word.index)},
                             {"golden", replay.golden.at(word.index)}});
  return json;
}

}  // namespace h3
