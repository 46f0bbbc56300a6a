#include "harness/power/mutants.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fixtures/path.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/json.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCatalogue = "ctest/mutants.json";
constexpr const char* kRooms[] = {"model", "kernels", "golden", "fixtures", "harness", "conformance"};

std::string text_of(const nlohmann::json& json, const char* field, const std::string& what) {
  require(json.is_object() && json.contains(field) && json[field].is_string(), "{}: no text '{}'", what,
          field);
  return json[field].get<std::string>();
}

}  // namespace

MutantCatalogue load_mutants(const fs::path& source, const std::string& engine) {
  const std::string what = (source / kCatalogue).string();
  const auto json = read_json(what);
  require(engine == "cpu" || engine == "cuda", "engine '{}': expected cpu or cuda", engine);
  require(text_of(json, "schema", what) == "h3.mutants.v1", "{}: another schema than h3.mutants.v1", what);
  MutantCatalogue catalogue;
  for (const auto& one : json.at(engine))
    catalogue.mutants.push_back({text_of(one, "name", what), text_of(one, "kind", what),
                                 text_of(one, "file", what), text_of(one, "find", what),
                                 text_of(one, "replace", what), one.value("cases", ""),
                                 one.value("survives", "")});
  for (const auto& [file, filter] : json.at("cases").at(engine).items()) catalogue.cases[file] = filter;
  catalogue.wider = json.at("wider").at(engine).get<std::vector<std::string>>();
  catalogue.without = text_of(json, "without", what);
  for (const auto& mutant : catalogue.mutants)
    require(!mutant.cases.empty() || catalogue.cases.contains(mutant.file), "{}: no cases for {}", what,
            mutant.file);
  return catalogue;
}

const std::string& MutantCatalogue::first_cases(const Mutant& mutant) const {
  return mutant.cases.empty() ? cases.at(mutant.file) : mutant.cases;
}

std::string mutated(const Mutant& mutant, const std::string& text) {
  const auto at = text.find(mutant.find);
  require(at != std::string::npos, "mutant {}: {} does not hold its text any more", mutant.name, mutant.file);
  require(text.find(mutant.find, at + 1) == std::string::npos, "mutant {}: its text stands twice in {}",
          mutant.name, mutant.file);
  std::string changed = text;
  changed.replace(at, mutant.find.size(), mutant.replace);
  require(changed != text, "mutant {}: its edit changes nothing", mutant.name);
  return changed;
}

const MutantVerdict* MutantRecord::find(const std::string& name) const {
  const auto found = std::ranges::find(verdicts, name, &MutantVerdict::name);
  return found == verdicts.end() ? nullptr : &*found;
}

fs::path mutant_record_path(const fs::path& source, const std::string& engine) {
  return source / "ctest" / fmt::format("mutants_{}.json", engine);
}

MutantRecord mutant_record_from_json(const nlohmann::json& json, const std::string& what) {
  MutantRecord record{
      text_of(json, "engine", what), text_of(json, "sources_sha256", what), json.value("machine", ""), {}};
  for (const auto& one : json.at("mutants"))
    record.verdicts.push_back({text_of(one, "name", what), text_of(one, "file_sha256", what),
                               one.at("killed").get<bool>(), text_of(one, "by", what)});
  return record;
}

nlohmann::ordered_json to_json(const MutantRecord& record) {
  nlohmann::ordered_json json = {{"schema", "h3.mutants.record.v1"},
                                 {"engine", record.engine},
                                 {"sources_sha256", record.sources_sha256},
                                 {"machine", record.machine},
                                 {"mutants", nlohmann::ordered_json::array()}};
  for (const auto& verdict : record.verdicts)
    json["mutants"].push_back({{"name", verdict.name},
                               {"file_sha256", verdict.file_sha256},
                               {"killed", verdict.killed},
                               {"by", verdict.by}});
  return json;
}

bool has_mutant_record(const fs::path& source, const std::string& engine) {
  return fs::exists(mutant_record_path(source, engine));
}

MutantRecord load_mutant_record(const fs::path& source, const std::string& engine) {
  const std::string path = mutant_record_path(source, engine).string();
  return mutant_record_from_json(read_json(path), path);
}

std::vector<std::string> problems_of(const MutantRecord& record, const MutantCatalogue& catalogue,
                                     const fs::path& source,
                                     const std::function<bool(const std::string& name)>& is_required) {
  std::vector<std::string> problems;
  std::map<std::string, std::string> sha256;
  for (const Mutant& mutant : catalogue.mutants) {
    const MutantVerdict* verdict = record.find(mutant.name);
    if (verdict == nullptr) {
      problems.push_back(fmt::format("mutant {}: never measured", mutant.name));
      continue;
    }
    auto& now = sha256[mutant.file];
    if (now.empty()) now = digest_file((source / mutant.file).string()).sha256;
    if (verdict->file_sha256 != now)
      problems.push_back(fmt::format("mutant {}: measured on another {}; h3_mutants --stale measures again",
                                     mutant.name, mutant.file));
    if (!verdict->killed && mutant.survives.empty())
      problems.push_back(fmt::format("mutant {}: survives, and nothing says why", mutant.name));
    if (verdict->killed && !mutant.survives.empty())
      problems.push_back(
          fmt::format("mutant {}: is killed, and the catalogue says it cannot be", mutant.name));
    if (verdict->killed && !is_required(verdict->by))
      problems.push_back(
          fmt::format("mutant {}: killed by {}, which no gate requires", mutant.name, verdict->by));
  }
  for (const auto& verdict : record.verdicts)
    if (std::ranges::find(catalogue.mutants, verdict.name, &Mutant::name) == catalogue.mutants.end())
      problems.push_back(fmt::format("mutant {}: has a verdict and is in no catalogue", verdict.name));
  return problems;
}

std::string sources_sha256(const fs::path& source) {
  std::vector<std::string> paths;
  for (const char* room : kRooms)
    for (const auto& entry : fs::recursive_directory_iterator(source / room))
      if (const auto kind = entry.path().extension();
          entry.is_regular_file() &&
          (kind == ".cpp" || kind == ".h" || kind == ".cu" || kind == ".cuh" || kind == ".h5"))
        paths.push_back(fs::relative(entry.path(), source).generic_string());
  std::ranges::sort(paths);
  Sha256 sum;
  for (const auto& path : paths)
    sum.update(fmt::format("{} {}\n", digest_file((source / path).string()).sha256, path));
  return sum.hex();
}

fs::path source_tree() { return data_root(); }

}  // namespace h3
