// h3 provider: block 0 through cuBLAS, cuDNN and eager operations on the GPU, against what diffusers
// recorded.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/cli/commands.h"
#include "harness/progress.h"
#include "harness/provider_replay.h"

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

}  // namespace

void add_provider(CLI::App& app) {
  auto* command = app.add_subcommand(
      "provider", "Replay block 0 with the provider's own libraries on this GPU and compare with its record");
  command->footer(R"(Examples:
  h3 provider --layout tiny                       17 nodes through cuBLAS, cuDNN and eager operations
  h3 provider --layout small --variant cublaslt   the products through cuBLASLt
LD_LIBRARY_PATH chooses the libcublas, libcublasLt and libcudnn that answer.
Exit: 0 every node has the recorded bytes, 1 some differ, 2 bad input or no GPU.)");
  auto layout = std::make_shared<std::string>("tiny");
  auto variant = std::make_shared<std::string>("default");
  auto as_json = std::make_shared<bool>(false);
  command->add_option("--layout", *layout, "tiny, small or medium")->capture_default_str();
  command->add_option("--variant", *variant, "default or cublaslt")->capture_default_str();
  command->add_flag("--json", *as_json, "print JSON instead of the table");
  command->callback([=] {
    const ProviderReplay replay = [&] {
      Progress bar("provider " + *layout, 18, Progress::Unit::steps);
      return replay_provider(*layout, *variant,
                             [&](std::int64_t done, const std::string& what) { bar.step(done, what); });
    }();
    std::fputs((*as_json ? to_json(replay).dump(2) + "\n" : to_table(replay)).c_str(), stdout);
    if (!replay.equal()) throw CheckFailed();
  });
}

}  // namespace h3::cli
