// h3 provider: block 0 through cuBLAS, cuDNN and eager operations on the GPU, against what diffusers recorded
// or against the strict rows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "harness/cli/commands.h"
#include "harness/replay/provider_against_strict.h"
#include "harness/replay/provider_replay.h"
#include "harness/report/progress.h"
#include "model/json.h"

namespace h3::cli {
namespace {

std::string verdict_text(const ProviderReplayNode& node) {
  std::string text = node.verdict.equal
                         ? "= recorded"
                         : fmt::format("{} of {} rows differ", node.verdict.rows_differing, node.rows);
  if (node.verdict.first && node.verdict.first->row >= 0)
    text += "; first: " + node.verdict.first->to_string();
  if (!node.refused.empty()) text += fmt::format(" (provider refused: {})", node.refused);
  return text;
}

std::string to_table(const ProviderReplay& replay) {
  std::string text =
      fmt::format("provider, block 0, layout {}, variant {}, on {}\nrecorded with  {}\nrun with      ",
                  replay.layout, replay.variant, replay.device, replay.recorded);
  for (const auto& [name, version, as_recorded] : replay.libraries)
    text +=
        fmt::format(" {} {}{},", name, version, as_recorded.value_or(true) ? "" : " (another was recorded)");
  text.back() = '\n';
  text += fmt::format("\n{:<18} {:<8} {}\n", "node", "binding", "bytes");
  for (const auto& node : replay.nodes)
    text += fmt::format("{:<18} {:<8} {}\n", node.node, name_of(node.binding), verdict_text(node));
  return text + fmt::format("\n{}\n",
                            replay.equal() ? "every node has the recorded bytes" : "DIFFERS from the record");
}

nlohmann::ordered_json to_json(const ProviderReplay& replay) {
  nlohmann::ordered_json json = {{"layout", replay.layout},
                                 {"variant", replay.variant},
                                 {"device", replay.device},
                                 {"recorded_with", replay.recorded},
                                 {"equal", replay.equal()}};
  for (const auto& [name, version, as_recorded] : replay.libraries) {
    json["run_with"][name]["version"] = version;
    if (as_recorded) json["run_with"][name]["as_recorded"] = *as_recorded;
  }
  for (const auto& node : replay.nodes) {
    nlohmann::ordered_json entry = {{"node", node.node},     {"binding", name_of(node.binding)},
                                    {"sha256", node.sha256}, {"equal", node.verdict.equal},
                                    {"rows", node.rows},     {"rows_differing", node.verdict.rows_differing}};
    if (!node.refused.empty()) entry["refused"] = node.refused;
    if (node.verdict.first) entry["first"] = node.verdict.first->to_string();
    json["nodes"].push_back(entry);
  }
  return json;
}

std::string to_table(const ProviderAgainstStrict& found) {
  std::string text = fmt::format(
      "provider against the strict rows, {}, {} rows, variant {}, on {}\ninputs        {}\nrun with      ",
      found.part, found.rows, found.variant, found.device, found.inputs);
  for (const auto& [name, version] : found.libraries) text += fmt::format(" {} {},", name, version);
  text.back() = '\n';
  std::size_t width = 18;
  for (const auto& node : found.nodes) width = std::max(width, node.node.size());
  text += fmt::format("\n{:<{}} {:>14} {:>12}  {}\n", "node", width, "elements", "differing",
                      "provider's digest (xxh3)");
  for (const auto& node : found.nodes) {
    if (!node.refused.empty()) {
      text += fmt::format("{:<{}} not compared, the provider refused: {}\n", node.node, width, node.refused);
      continue;
    }
    text += fmt::format("{:<{}} {:>14} {:>12}  {}{}\n", node.node, width, node.elements, node.differing,
                        node.xxh3_128, node.first ? "  first: " + node.first->to_string() : "");
  }
  return text + fmt::format("\n{}\n", found.equal() ? "every node has the same bytes, isolated"
                                                    : "NOT the same bytes at every node");
}

nlohmann::ordered_json to_json(const ProviderAgainstStrict& found) {
  nlohmann::ordered_json json = {{"part", found.part},     {"rows", found.rows},
                                 {"inputs", found.inputs}, {"variant", found.variant},
                                 {"device", found.device}, {"equal", found.equal()}};
  for (const auto& [name, version] : found.libraries) json["run_with"][name]["version"] = version;
  for (const auto& node : found.nodes) {
    nlohmann::ordered_json entry = {{"node", node.node}};
    if (node.refused.empty())
      entry.update({{"elements", node.elements}, {"differing", node.differing}, {"xxh3_128", node.xxh3_128}});
    else
      entry["refused"] = node.refused;
    if (node.first) entry["first"] = node.first->to_string();
    json["nodes"].push_back(entry);
  }
  return json;
}

template <class Found>
void report(const Found& found, bool as_json) {
  std::fputs((as_json ? to_json(found).dump(2) + "\n" : to_table(found)).c_str(), stdout);
  if (!found.equal()) throw CheckFailed();
}

struct Options {
  std::string part = "block0", layout = "tiny", variant = "default", against = "record";
  std::int64_t rows = 0;
  bool json = false;
};

void run(const Options& options) {
  std::unique_ptr<Progress> bar;
  const auto step = [&](std::int64_t done, std::int64_t steps, const std::string& next) {
    if (!bar) bar = std::make_unique<Progress>("provider", steps, Progress::Unit::steps);
    bar->step(done, next);
  };
  const auto shown = [&](const auto& found) {
    bar.reset();
    report(found, options.json);
  };
  if (options.part == "refiner") {
    require(options.against == "cuda", "provider: no record of the refiner: it goes with --against cuda");
    shown(compare_provider_refiner(options.rows ? options.rows : named_layout(options.layout).text_rows(),
                                   options.variant, step));
    return;
  }
  if (options.against == "record") {
    require(options.rows == 0, "provider: no record of {} rows: --rows goes with --against cuda",
            options.rows);
    shown(replay_provider(options.layout, options.variant, step));
    return;
  }
  const PackedLayout layout = options.rows ? layout_of_rows(options.rows) : named_layout(options.layout);
  shown(compare_provider(layout, options.variant, step));
}

}  // namespace

void add_provider(CLI::App& app) {
  auto* command = app.add_subcommand(
      "provider",
      "Block 0 or the refiner with the provider's own libraries on this GPU, against its record or the rows");
  command->footer(R"(Examples:
  h3 provider --layout tiny                       17 nodes through cuBLAS, cuDNN and eager operations
  h3 provider --layout small --variant cublaslt   the products through cuBLASLt
  h3 provider --rows 8192 --against cuda          both on this GPU, node by node on the same inputs
  h3 provider --layout 768p-124f --against cuda   the same with the rows of a whole video
  h3 provider --part refiner --rows 256 --against cuda
                                                  text embedder, both refiner blocks and their norm, 256 text rows
LD_LIBRARY_PATH chooses the libcublas, libcublasLt and libcudnn that answer.
Exit: 0 every node has the same bytes, 1 some differ or were not compared, 2 bad input or no GPU.)");
  auto options = std::make_shared<Options>();
  command->add_option("--part", options->part, "block0, or refiner: what the text goes through")
      ->check(CLI::IsMember({"block0", "refiner"}))
      ->capture_default_str();
  command->add_option("--layout", options->layout, "tiny, small, medium or 768p-124f")->capture_default_str();
  command
      ->add_option("--rows", options->rows,
                   "this many packed rows instead: tiny with more text; of the refiner, text rows")
      ->check(CLI::PositiveNumber);
  command->add_option("--variant", options->variant, "default or cublaslt")->capture_default_str();
  command->add_option("--against", options->against, "record: what diffusers recorded; cuda: the strict rows")
      ->check(CLI::IsMember({"record", "cuda"}))
      ->capture_default_str();
  command->add_flag("--json", options->json, "print JSON instead of the table");
  command->callback([=] { run(*options); });
}

}  // namespace h3::cli
