// h3_gate: runs the cases of one gate as one process and decides whether the gate is closed.
//
//   h3_gate --gate host --binary build/h3_conformance --required ctest/required/host.txt
//           --evidence build/evidence/host
//   h3_gate --gate host --binary ... --required ... --update-required      regenerates the list
//
// It is a program of its own, without GoogleTest and without anything that it judges: a crash of the binary
// is a line in the ledger. The evidence folder (ctest/evidence/folder.h) is sealed at the end, whatever the
// verdict; h3_evidence verifies it. The binary's working directory is beside it: <evidence>.run.
// Exit code: 0 closed; 1 not closed; 2 cannot work like this; 77 everything skipped for an allowed reason,
// only where H3_ALLOW_SKIP=1 asks for it (a laptop without a GPU); such a gate is still not closed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "ctest/child.h"
#include "ctest/environment.h"
#include "ctest/evidence/folder.h"
#include "ctest/evidence/publish.h"
#include "ctest/evidence/report.h"
#include "ctest/evidence/seal.h"
#include "ctest/files.h"
#include "ctest/progress.h"
#include "ctest/required.h"
#include "ctest/resources.h"
#include "ctest/verdict.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/json.h"

extern char** environ;

namespace h3::gate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Options {
  std::string gate, binary, required, evidence, source, resources;
  double time_limit = 0;
  std::size_t gpus = 0;
  bool update_required = false;
};

struct Folder {
  explicit Folder(const fs::path& folder) : root(folder.has_filename() ? folder : folder.parent_path()) {}
  fs::path root;
  std::string ledger() const { return root / kLedgerFile; }
  std::string required() const { return root / kRequiredFile; }
  std::string output() const { return root / kOutputFile; }
  std::string run() const { return root.string() + ".run"; }

  // An earlier run must not be able to speak for this one.
  void start_afresh() const {
    fs::create_directories(root);
    break_seal(root);
    fs::remove_all(root / "run");  // of a run before evidence was sealed
    const auto foreign = strangers(root);
    require(foreign.empty(), "{}/{}; --evidence takes a new folder, or one of an earlier run", root.string(),
            foreign.empty() ? "" : foreign.front());
    for (const auto& entry : fs::directory_iterator(root)) fs::remove(entry);
    fs::remove_all(run());
    fs::create_directories(run());
  }
};

// A gate always runs whole: GoogleTest takes filters, shards and repeats from the environment.
std::string leaked_variable() {
  for (char** entry = environ; *entry; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('='));
    if (name.starts_with("GTEST_") && name != "GTEST_COLOR") return name;
  }
  return "";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

std::string one_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Json git_state(const std::string& source) {
  if (source.empty()) return nullptr;
  if (const fs::path installed = fs::path(source) / "source.json"; fs::exists(installed))
    return Json::parse(read_file(installed.string()));  // a bundle: the tree that it was built from
  const auto git = [&](std::vector<std::string> rest) {
    rest.insert(rest.begin(), {"git", "-C", source});
    return one_line(output_of(rest));
  };
  const std::string commit = git({"rev-parse", "--verify", "HEAD"});
  if (commit.empty()) return nullptr;  // no repository, or no git
  const std::string patch = git({"diff", "HEAD", "--binary"});
  return {{"commit", commit},
          {"tree", git({"rev-parse", "--verify", "HEAD^{tree}"})},
          {"clean", git({"status", "--porcelain"}).empty()},
          {"patch_sha256", patch.empty() ? Json() : Json(sha256_hex(patch))}};
}

void run_binary(const Options& options, const Folder& folder, const RequiredList& required) {
  const std::string started = utc_now();
  const Json gpus = gpu_states();
  ProcessEnd end;
  std::string refusal;
  if (const std::string leaked = leaked_variable(); !leaked.empty())
    refusal = leaked + " is set: a gate always runs whole; unset it";
  else if (!fs::exists(options.binary))
    refusal = "the binary is missing: " + fs::path(options.binary).filename().string();
  if (options.gpus > 0) {
    const auto visible = visible_gpus(), assigned = assigned_gpus(visible);
    if (refusal.empty()) refusal = refused_without_gpus(options.gpus, assigned, visible);
    if (!assigned.empty())
      ::setenv("CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(assigned, ",")).c_str(), 1);
  }
  if (refusal.empty()) {
    Progress progress(options.gate, folder.ledger(), required.cases.size());
    end = run_to_end({.arguments = {fs::absolute(options.binary), "--gtest_filter=" + options.gate + "/*",
                                    "--gtest_color=no", "--ledger=" + fs::absolute(folder.ledger()).string()},
                      .working_directory = folder.run(),
                      .output_file = folder.output(),
                      .time_limit = options.time_limit},
                     [&] { progress.look(); });
    progress.finish();
  }
  const bool new_ledger = !fs::exists(folder.ledger());
  LedgerWriter ledger =
      new_ledger ? LedgerWriter(folder.ledger()) : LedgerWriter::continue_at(folder.ledger());
  if (!refusal.empty()) ledger.append({{"event", "refused"}, {"reason", refusal}});
  ledger.append({{"event", "process_end"},
                 {"gate", options.gate},
                 {"started", started},
                 {"seconds", end.seconds},
                 {"exit_code", end.exit_code},
                 {"signal", end.signal},
                 {"timed_out", end.timed_out},
                 {"torn_bytes", ledger.torn_bytes()},
                 {"required_sha256", required.sha256},
                 {"binary_sha256", fs::exists(options.binary) ? digest_file(options.binary).sha256 : ""},
                 {"environment", environment_after(gpus)},
                 {"git", git_state(options.source)}});
  ledger.sync();
}

void print_reasons(const Verdict& verdict) {
  constexpr int kMost = 20;
  int shown = 0, red = int(verdict.problems.size());
  for (const auto& [name, text] : verdict.problems) {
    fmt::print("  {}: {}\n", name, text);
    ++shown;
  }
  for (const auto& one : verdict.cases) {
    if (one.outcome == Outcome::passed) continue;
    ++red;
    if (shown++ < kMost) fmt::print("  {}\n    {}\n", one.name, one.message);
  }
  if (red > kMost) fmt::print("  ... and {} more, see junit.xml\n", red - kMost);
}

// For CDash, which plots numbers over time (ctest/cdash.cmake); CTest takes these lines out of what it shows.
void print_measurements(const Verdict& verdict) {
  if (!std::getenv("DASHBOARD_TEST_FROM_CTEST")) return;
  const auto print = [&](const char* name, const Json& value) {
    fmt::print("<CTestMeasurement type=\"numeric/double\" name=\"h3.{}.{}\">{}</CTestMeasurement>\n",
               verdict.gate, name, value.dump());
  };
  double used = 0;
  const Json report = report_of(verdict, {});
  for (const auto& one : report["cases"])
    if (one["used"].is_number()) used = std::max(used, one["used"].get<double>());
  print("required", verdict.required);
  print("passed", verdict.passed);
  print("seconds", verdict.seconds);
  print("largest_share_of_a_limit", used);
}

int run_gate(const Options& options) {
  const Folder folder(fs::absolute(options.evidence));
  folder.start_afresh();
  const RequiredList required = read_required(options.required);
  write_file(folder.required(), required.text);
  run_binary(options, folder, required);

  const Verdict verdict = judge(options.gate, read_ledger(folder.ledger()), required.cases);
  publish(folder.root);
  std::error_code not_empty;  // what the cases left there stays
  fs::remove(folder.run(), not_empty);
  print_measurements(verdict);
  print_reasons(verdict);
  fmt::print("{}\n", verdict.summary());
  const char* allow = std::getenv("H3_ALLOW_SKIP");
  if (verdict.all_skipped && allow && std::string(allow) == "1") return 77;
  return verdict.closed() ? 0 : 1;
}

int main_of_gate(int argc, char** argv) {
  Options options;
  CLI::App app{"Runs the cases of one gate and decides whether it is closed"};
  app.add_option("--gate", options.gate, "name of the gate: cases <gate>/*, label <gate>");
  app.add_option("--binary", options.binary, "conformance binary");
  app.add_option("--required", options.required, "list of required cases");
  app.add_option("--evidence", options.evidence, "folder for ledger, reports and seal");
  app.add_option("--source", options.source, "source tree or bundle, for git commit, tree and state");
  app.add_option("--time-limit", options.time_limit, "seconds; 0 is none");
  app.add_option("--gpus", options.gpus, "GPUs that CTest has to assign to this gate (RESOURCE_GROUPS)");
  app.add_option("--resources", options.resources,
                 "write the GPUs of this machine for ctest --resource-spec-file; prints how many");
  app.add_flag("--update-required", options.update_required, "regenerate the list of required cases");
  CLI11_PARSE(app, argc, argv);

  if (!options.resources.empty()) {
    const auto visible = visible_gpus();
    write_file(options.resources, resource_spec(visible).dump(2) + "\n");
    fmt::print("{}\n", visible.size());
    return 0;
  }
  require(!options.gate.empty() && !options.binary.empty() && !options.required.empty(),
          "--gate, --binary and --required are needed");
  if (options.update_required) {
    const auto cases = cases_of(options.binary, options.gate);
    write_required(options.required, options.gate, cases);
    fmt::print("gate {}: {} cases required\n", options.gate, cases.size());
    return 0;
  }
  require(!options.evidence.empty(), "--evidence is needed");
  return run_gate(options);
}

}  // namespace
}  // namespace h3::gate

int main(int argc, char** argv) {
  try {
    return h3::gate::main_of_gate(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "h3_gate: {}\n", error.what());
    return 2;
  }
}
