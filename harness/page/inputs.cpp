#include "harness/page/inputs.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "ctest/files.h"
#include "ctest/required.h"
#include "fixtures/path.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/json.h"

namespace h3::page {
namespace {

namespace fs = std::filesystem;
using namespace nlohmann::literals;

constexpr std::array kSchemas = {"h3.replay.v1",         "h3.full_model.v2",       "h3.ulp.v1",
                                 "h3.diagnosis.v1",      "h3.trajectory_drift.v1", "h3.media_comparison.v1",
                                 "h3.power.controls.v1", "h3.power.floors.v1",     "h3.power.orders.v1",
                                 "h3.power.alarms.v1"};

bool is_shown(const std::string& schema) { return std::ranges::count(kSchemas, schema) > 0; }

std::string name_of(const fs::path& path) {
  const fs::path whole = path.lexically_normal();
  return whole.has_filename() ? whole.filename().string() : whole.parent_path().filename().string();
}

void add_gate(Inputs& inputs, const fs::path& folder) {
  const fs::path required = folder / "required.txt", receipt = folder / "receipt.json";
  require(fs::exists(required), "{}: no such file, expected the list of cases beside ledger.jsonl",
          required.string());
  const Ledger ledger = read_ledger((folder / "ledger.jsonl").string());
  require(!ledger.events.empty(), "{}: {}", (folder / "ledger.jsonl").string(),
          ledger.defect.empty() ? "no event" : ledger.defect);
  Source source{.name = name_of(folder), .schema = "ledger", .sha256 = ledger.root, .json = {}};
  source.json["events"] = ledger.events;
  source.json["receipt"] = fs::exists(receipt) ? read_json(receipt.string()) : Json();
  const Json& said = source.json["receipt"];

  GateRun run;
  run.source = inputs.sources.size();
  const std::string gate = values_of(source.name, [&] {
    return ledger.events.back().value("gate", said.is_object() ? said.value("gate", "") : "");
  });
  run.verdict =
      gate::judge(gate.empty() ? source.name : gate, ledger, gate::read_required(required.string()).cases);
  if (!said.is_object()) {
    run.disagreements.push_back("there is no receipt: the run did not come to its end");
  } else {
    const gate::Verdict& found = run.verdict;
    const Json expected = {{"verdict", found.closed() ? "closed" : "not closed"},
                           {"required", found.required},
                           {"ran", found.ran},
                           {"passed", found.passed},
                           {"failed", found.failed},
                           {"skipped", found.skipped},
                           {"missing", found.missing},
                           {"unlisted", found.unlisted},
                           {"ledger_root", ledger.root}};
    for (const auto& [key, value] : expected.items())
      if (!said.contains(key) || said[key] != value)
        run.disagreements.push_back(fmt::format("receipt.json: {} is {}, the ledger says {}", key,
                                                said.contains(key) ? said[key].dump() : "absent",
                                                value.dump()));
  }
  inputs.sources.push_back(std::move(source));
  inputs.gates.push_back(std::move(run));
}

// The parts of `h3 power --json` are reports of their own.
bool add_report(Inputs& inputs, const fs::path& path, bool only_known) {
  const std::string text = gate::read_file(path.string());
  Json json = parse_json(text, path.string());
  std::vector<Json> reports;
  if (json.is_object() && !json.contains("schema")) {
    for (const auto& [key, part] : json.items())
      if (part.is_object() && part.value("schema", Json()).is_string()) reports.push_back(part);
  } else {
    reports.push_back(json);
  }
  bool known = false;
  for (Json& report : reports) {
    const std::string schema =
        report.is_object() && report.value("schema", Json()).is_string() ? report["schema"] : "";
    if (!is_shown(schema)) continue;
    known = true;
    inputs.sources.push_back({name_of(path), schema, sha256_hex(text), std::move(report)});
  }
  require(known || only_known, "{}: not a report that a page shows, expected a schema such as {}",
          path.string(), kSchemas.front());
  return known;
}

void add(Inputs& inputs, const fs::path& path) {
  require(fs::exists(path), "{}: no such file or folder", path.string());
  if (!fs::is_directory(path)) {
    add_report(inputs, path, false);
    return;
  }
  if (fs::exists(path / "ledger.jsonl")) return add_gate(inputs, path);
  std::set<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(path)) entries.insert(entry.path());
  const std::size_t before = inputs.sources.size();
  for (const fs::path& entry : entries) {
    if (fs::exists(entry / "ledger.jsonl")) add_gate(inputs, entry);
    if (entry.extension() == ".json" && !add_report(inputs, entry, true))
      inputs.ignored.push_back(name_of(entry));
  }
  require(inputs.sources.size() > before, "{}: holds neither evidence of a gate (ledger.jsonl) nor a report",
          path.string());
}

// The ensemble that the report's bounds follow from, where this machine has it: the very file, by its hash.
void add_ensemble(Inputs& inputs, const Json& report) {
  for (const char* const config : {"reduced", "released"})
    for (const char* const layout : {"tiny", "small", "medium"}) {
      if (report.value("config", Json()) != config || report.value("/layout/name"_json_pointer, "") != layout)
        continue;
      const std::string name = ensemble_file(config, layout);
      const fs::path path = fixture_path(name);
      if (!fs::exists(path)) continue;
      const std::string text = gate::read_file(path.string());
      if (report.value("/bounds/inventory/ensemble"_json_pointer, "") != sha256_hex(text)) continue;
      inputs.ensembles.push_back(ensemble_from_json(parse_json(text, name), name));
    }
}

}  // namespace

std::vector<std::size_t> Inputs::of(const std::string& schema) const {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < sources.size(); ++i)
    if (sources[i].schema == schema) found.push_back(i);
  return found;
}

Inputs read_inputs(const std::vector<std::string>& paths) {
  Inputs inputs;
  for (const std::string& path : paths) add(inputs, path);
  for (const std::size_t i : inputs.of("h3.full_model.v2")) add_ensemble(inputs, inputs.sources[i].json);
  return inputs;
}

}  // namespace h3::page
