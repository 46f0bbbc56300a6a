// h3 compare: two replay reports node by node, or two HDF5 files dataset by dataset.
#include "harness/compare/compare.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "fixtures/hdf5.h"
#include "harness/cli/commands.h"
#include "model/json.h"

namespace h3::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Finding {
  std::string name, text;  // node or dataset; what differs about it
  Json detail;
};

struct Result {
  std::string kind;  // "nodes" or "datasets"
  std::int64_t compared = 0;
  std::vector<Finding> differing = {};  // in the order of A; what only one side has comes last
  std::vector<Finding> notes = {};      // context that differs and explains, but doesn't decide

  bool equal() const { return compared > 0 && differing.empty(); }
};

Json read_report(const std::string& path) {
  std::ifstream file(path);
  const Json report = Json::parse(file, nullptr, false);
  require(report.is_object() && report.value("schema", "") == "h3.replay.v1",
          "{}: neither an HDF5 file nor a replay report (schema h3.replay.v1)", path);
  return report;
}

// Name to {shape, xxh3_128}; boundaries first, as they are computed first.
std::vector<std::pair<std::string, Json>> digests_of(const Json& report, const std::string& path) {
  std::vector<std::pair<std::string, Json>> digests;
  const auto add = [&](const char* list, const char* key) {
    if (!report.contains(list) || !report[list].is_array()) return;
    for (const Json& entry : report[list]) {
      require(entry.contains(key) && entry.contains("xxh3_128"), "{}: an entry of {} has no {} or digest",
              path, list, key);
      digests.emplace_back(entry[key],
                           Json{{"shape", entry.value("shape", Json())}, {"xxh3_128", entry["xxh3_128"]}});
    }
  };
  add("boundaries", "name");
  add("nodes", "node");
  return digests;
}

Result compare_reports(const std::string& a, const std::string& b) {
  const Json left = read_report(a), right = read_report(b);
  Result result{.kind = "nodes"};
  for (const char* key : {"graph", "layout", "engine", "chain_isa", "seed", "weights", "timesteps"})
    if (left.value(key, Json()) != right.value(key, Json()))
      result.notes.push_back(
          {key, fmt::format("{} against {}", left.value(key, Json()).dump(), right.value(key, Json()).dump()),
           Json()});

  const auto ordered = digests_of(left, a);
  std::map<std::string, Json> others;
  for (const auto& [name, digest] : digests_of(right, b))
    require(others.emplace(name, digest).second, "{}: {} twice", b, name);
  std::vector<Finding> one_sided;
  for (const auto& [name, digest] : ordered) {
    const auto other = others.find(name);
    if (other == others.end()) {
      one_sided.push_back({name, "only in A", Json()});
      continue;
    }
    ++result.compared;
    if (digest != other->second)
      result.differing.push_back({name,
                                  fmt::format("{} against {}", digest["xxh3_128"].get<std::string>(),
                                              other->second["xxh3_128"].get<std::string>()),
                                  {{"a", digest}, {"b", other->second}}});
    others.erase(other);
  }
  for (const auto& [name, digest] : others) one_sided.push_back({name, "only in B", Json()});
  result.differing.insert(result.differing.end(), one_sided.begin(), one_sided.end());
  return result;
}

// What differs about a dataset that both files have; nothing when its decoded bytes and its shape are the
// same.
std::optional<Finding> compare_dataset(const std::string& name, const Hdf5Reader& left,
                                       const Hdf5Reader& right) {
  for (const Hdf5Reader* file : {&left, &right})
    file->verify(name);  // so that the hashes speak for the bytes
  const auto identity = [&](const Hdf5Reader& file) {
    const std::string dtype =
        file.has_attribute(name, "logical_dtype") ? file.string_attribute(name, "logical_dtype") : "";
    return std::tuple(file.shape(name), dtype, file.string_attribute(name, "sha256"));
  };
  if (identity(left) == identity(right)) return std::nullopt;
  try {
    const Comparison c = compare(left.read(name), right.read(name));
    if (!c.mismatch.empty()) return Finding{name, c.mismatch, to_json(c)};
    return Finding{
        name,
        fmt::format("{} of {} differ, first {} (row {}), max_abs {:.4g}, max_ulp {}, relative_l2 {:.4g}",
                    c.differing, c.elements, c.first_differing, c.first_row, c.max_abs, c.max_ulp,
                    c.relative_l2),
        to_json(c)};
  } catch (
      const Error&) {  // bytes or words that are no numbers of the suite: only their identity can be compared
    return Finding{name,
                   fmt::format("sha256 {} against {}", left.string_attribute(name, "sha256"),
                               right.string_attribute(name, "sha256")),
                   Json()};
  }
}

Result compare_files(const std::string& a, const std::string& b) {
  const Hdf5Reader left(a), right(b);
  Result result{.kind = "datasets"};
  const auto ordered = left.datasets(), others = right.datasets();
  const std::set<std::string> in_a(ordered.begin(), ordered.end()), in_b(others.begin(), others.end());
  for (const auto& name : ordered) {
    if (!in_b.contains(name)) continue;
    ++result.compared;
    if (auto finding = compare_dataset(name, left, right)) result.differing.push_back(std::move(*finding));
  }
  for (const auto& name : ordered)
    if (!in_b.contains(name)) result.differing.push_back({name, "only in A", Json()});
  for (const auto& name : others)
    if (!in_a.contains(name)) result.differing.push_back({name, "only in B", Json()});
  return result;
}

Json list_of(const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"name", finding.name}, {"text", finding.text}});
    if (!finding.detail.is_null()) list.back()["detail"] = finding.detail;
  }
  return list;
}

void print_json(const Result& result) {
  const Json out = {
      {"compared", result.kind},
      {"count", result.compared},
      {"equal", result.equal()},
      {"first_differing", result.differing.empty() ? Json() : Json(result.differing.front().name)},
      {"differing", list_of(result.differing)},
      {"notes", list_of(result.notes)}};
  fmt::print("{}\n", out.dump(2));
}

void print_text(const Result& result) {
  for (const Finding& note : result.notes) fmt::print("note: {}: {}\n", note.name, note.text);
  for (const Finding& finding : result.differing) fmt::print("{:<32} {}\n", finding.name, finding.text);
  if (result.compared == 0) fmt::print("nothing compared: the two have no {} in common\n", result.kind);
  if (result.equal()) fmt::print("{} {} compared, all equal\n", result.compared, result.kind);
  if (!result.differing.empty())
    fmt::print("{} {} compared, {} differ, the first is {}\n", result.compared, result.kind,
               result.differing.size(), result.differing.front().name);
}

}  // namespace

void add_compare(CLI::App& app) {
  struct Options {
    std::string a, b;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("compare", "Compare two replay reports, or two HDF5 files, bit by bit");
  command->add_option("A", options->a, "report.json or HDF5 file")->required();
  command->add_option("B", options->b, "the same kind of file")->required();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  h3 compare here.json there.json       node by node: the first whose digest differs\n"
      "  h3 compare old.h5 new.h5 --json       dataset by dataset: how many differ, by how much, where\n"
      "Exit: 0 equal, 1 they differ or have nothing in common, 2 bad input.");
  command->callback([options] {
    const bool hdf5 = is_hdf5(options->a);
    require(hdf5 == is_hdf5(options->b), "{} and {}: one is an HDF5 file, the other is not", options->a,
            options->b);
    const Result result =
        hdf5 ? compare_files(options->a, options->b) : compare_reports(options->a, options->b);
    options->json ? print_json(result) : print_text(result);
    if (!result.equal()) throw CheckFailed();
  });
}

}  // namespace h3::cli
