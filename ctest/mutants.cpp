// Builds a program of cases for each kernel mutant (ctest/mutants.json), several at once, runs them one after
// the other as they come, and records who killed which. A kill counts when the case that fails with the
// mutant passes without it, right afterwards and on the same machine: a GPU that a mutant has spoilt kills
// nothing. The record is written after every mutant; --stale goes on where it ends.
#include "harness/power/mutants.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "ctest/child.h"
#include "ctest/environment.h"
#include "ctest/files.h"
#include "ctest/variants.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/error.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string build, work, record, engine = "cpu";
  std::string jobs = std::to_string(std::thread::hardware_concurrency());
  std::vector<std::string> only;
  double time_limit = 300;  // of one case: a program that prints nothing for longer hangs
  bool stale = false;
};

struct Run {
  bool ran = true;  // false: no case was selected, or each was skipped, or the program ended before the first
  std::string failed;  // the case that failed, or that was running when the program ended
  bool hung = false;
  double seconds = 0;
};

constexpr const char* kCases = "h3_conformance";

// The unchanged cases, and beside them a program of the same cases for every mutant. What is written lies in
// the folder --work: no mutant comes near the tree, or near the build that it starts from.
class Bench {
 public:
  explicit Bench(const Options& options) : options_(options) {
    fs::create_directories(options.work);
    const bool built = run_to_end({.arguments = {ninja_of_build(options.build), "-C", options.build, "-j",
                                                 options.jobs, kCases},
                                   .output_file = log("unchanged")})
                           .clean();
    require(built, "the unchanged tree does not build, see {}", log("unchanged"));
  }
  ~Bench() { stop_ = true; }  // before the future waits for the builds

  // Returns at once. A mutant that does not build stops none of the others.
  void start_builds(const std::vector<Variant>& mutants) {
    for (const Variant& mutant : mutants) forget(mutant.name);  // of an earlier run, perhaps of other sources
    write_variants(options_.build, kCases, mutants, options_.work);
    builds_ = std::async(std::launch::async, [this] {  // behind the cases, whose twins want the same cores
      run_to_end({.arguments = {"nice", ninja_of_build(options_.build), "-C", options_.work, "-k", "0", "-j",
                                options_.jobs},
                  .output_file = log("mutants"),
                  .kill_when = [this] { return stop_.load(); }});
    });
  }
  bool is_building() const {
    return builds_.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready;
  }
  bool is_built(const std::string& mutant) const { return fs::exists(program(mutant)); }
  void forget(const std::string& mutant) const { fs::remove(program(mutant)); }

  Run run(const std::string& mutant, const std::string& filter) const { return run(program(mutant), filter); }
  Run run_unchanged(const std::string& filter) const {
    return run(fs::path(options_.build) / kCases, filter);
  }

  std::string log(const std::string& name) const { return fs::path(options_.work) / (name + ".log"); }

 private:
  fs::path program(const std::string& mutant) const { return variant_program(options_.work, mutant); }

  Run run(const fs::path& program, const std::string& filter) const {
    using Clock = std::chrono::steady_clock;
    const std::string output = log("cases");
    Run run;
    auto last_word = Clock::now();
    std::uintmax_t printed = 0;
    const auto hangs = [&] {
      std::error_code not_yet;
      if (const auto size = fs::file_size(output, not_yet); !not_yet && size != printed) {
        printed = size;
        last_word = Clock::now();
      }
      return run.hung = Clock::now() - last_word > std::chrono::duration<double>(options_.time_limit);
    };
    const ProcessEnd end = run_to_end(
        {.arguments = {program.string(), "--gtest_filter=" + filter, "--gtest_fail_fast", "--gtest_color=no"},
         .output_file = output,
         .kill_when = hangs});
    run.seconds = end.seconds;
    if (end.clean()) return run;
    constexpr int kNothingRan = 2, kSkipped = 77;  // conformance/main.cpp
    const std::string begins = "[ RUN      ] ", fails = "[  FAILED  ] ";
    std::ifstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(begins)) run.failed = line.substr(begins.size());
      if (line.starts_with(fails)) {
        run.failed = line.substr(fails.size(), line.find_first_of(" ,", fails.size()) - fails.size());
        break;
      }
    }
    if (end.exit_code == kNothingRan || end.exit_code == kSkipped) run.failed.clear();
    run.ran = !run.failed.empty();
    return run;
  }

  const Options& options_;
  std::atomic<bool> stop_ = false;
  std::future<void> builds_;
};

// A survivor that nothing explains is measured again, too.
bool is_stale(const MutantVerdict* known, const Mutant& mutant, const fs::path& source) {
  return known == nullptr || known->file_sha256 != digest_file((source / mutant.file).string()).sha256 ||
         (!known->killed && mutant.survives.empty());
}

std::vector<Mutant> asked_for(const Options& options, const fs::path& source,
                              const MutantCatalogue& catalogue, const MutantRecord& record) {
  std::vector<Mutant> asked;
  for (const auto& mutant : catalogue.mutants)
    if (options.only.empty() ? !options.stale || is_stale(record.find(mutant.name), mutant, source)
                             : std::ranges::count(options.only, mutant.name) > 0)
      asked.push_back(mutant);
  require(options.only.empty() || asked.size() == options.only.size(),
          "a mutant of --only is not in the catalogue");
  return asked;
}

std::string machine(const std::string& engine) {
  const auto here = environment();
  const auto& name = engine == "cpu" || here["gpus"].empty() ? here["cpu"] : here["gpus"][0]["name"];
  return name.is_string() ? name.get<std::string>() : "";
}

class Examination {
 public:
  Examination(const Options& options, const fs::path& source, const MutantCatalogue& catalogue,
              MutantRecord record, const std::vector<Mutant>& mutants)
      : catalogue_(catalogue),
        path_(options.record.empty() ? mutant_record_path(source, options.engine).string() : options.record),
        record_(std::move(record)),
        bench_(options),
        count_(mutants.size()) {
    std::erase_if(record_.verdicts, [&](const MutantVerdict& verdict) {
      return std::ranges::find(catalogue.mutants, verdict.name, &Mutant::name) == catalogue.mutants.end();
    });
    record_.engine = options.engine;
    record_.machine = machine(options.engine);
    record_.sources_sha256 = sources_sha256(source);
    std::vector<Variant> variants;
    for (const Mutant& mutant : mutants) {
      const std::string text = read_file((source / mutant.file).string());
      sha256_[mutant.file] = sha256_hex(text);
      variants.push_back({mutant.name, mutant.file, mutated(mutant, text)});
    }
    bench_.start_builds(variants);
    const Run unchanged = bench_.run_unchanged(with_exceptions(catalogue.first_cases(mutants.front())));
    require(unchanged.ran, "no case runs here, see {}", bench_.log("cases"));
    require(unchanged.failed.empty(), "the unchanged tree fails in {}", unchanged.failed);
  }

  // Each mutant's own cases first, in the order in which they are built; then the wider ones for those that
  // have survived. Gives what is left.
  std::vector<Mutant> examine(std::vector<Mutant> waiting) {
    std::vector<Mutant> survivors;
    for (bool more_may_come = true; more_may_come || !waiting.empty();) {
      more_may_come = bench_.is_building();
      const auto next =
          std::ranges::find_if(waiting, [&](const Mutant& mutant) { return bench_.is_built(mutant.name); });
      if (next == waiting.end() && !more_may_come) break;
      if (next == waiting.end()) continue;
      if (survives(*next, catalogue_.first_cases(*next))) survivors.push_back(*next);
      waiting.erase(next);
    }
    for (const Mutant& mutant : waiting) without_verdict_ += " " + mutant.name;  // not built
    for (const std::string& filter : catalogue_.wider)
      std::erase_if(survivors, [&](const Mutant& mutant) { return !survives(mutant, filter); });
    return survivors;
  }

  const std::string& without_verdict() const { return without_verdict_; }
  std::string build_log() const { return bench_.log("mutants"); }

 private:
  std::string with_exceptions(const std::string& filter) const {
    return filter + (filter.find('-') == std::string::npos ? "-" : ":") + catalogue_.without;
  }

  // Neither killed nor without a verdict; in the record it survives until it is killed.
  bool survives(const Mutant& mutant, const std::string& filter) {
    const Run run = bench_.run(mutant.name, with_exceptions(filter));
    const auto say = [&](const std::string& what) {
      fmt::print("{:>3} of {} killed  {:<44} {:5.1f} s  {}{}\n", killed_, count_, mutant.name, run.seconds,
                 what, run.hung ? ", which hangs" : "");
      std::fflush(stdout);
    };
    const bool killed = run.ran && !run.failed.empty();
    if (!run.ran || (killed && !passes_unchanged(run.failed))) {
      without_verdict_ += " " + mutant.name;
      say(killed ? "no verdict: without it, too, fails " + run.failed : "no verdict: runs no case");
      bench_.forget(mutant.name);
      return false;
    }
    write({mutant.name, sha256_.at(mutant.file), killed, run.failed});
    killed_ += killed;
    say(killed ? "killed by " + run.failed : "survives " + filter);
    if (killed) bench_.forget(mutant.name);
    return !killed;
  }

  bool passes_unchanged(const std::string& name) const {
    const Run twin = bench_.run_unchanged(name);
    return twin.ran && twin.failed.empty();
  }

  void write(const MutantVerdict& verdict) {
    if (const auto known = std::ranges::find(record_.verdicts, verdict.name, &MutantVerdict::name);
        known != record_.verdicts.end())
      *known = verdict;
    else
      record_.verdicts.push_back(verdict);
    write_file(path_, to_json(record_).dump(1) + "\n");
  }

  const MutantCatalogue& catalogue_;
  const std::string path_;
  MutantRecord record_;
  std::map<std::string, std::string> sha256_;  // by file
  Bench bench_;
  std::size_t count_, killed_ = 0;
  std::string without_verdict_;
};

int examine_all(const Options& options) {
  const fs::path source = source_of_build(options.build);
  const MutantCatalogue catalogue = load_mutants(source, options.engine);
  MutantRecord record;
  if (has_mutant_record(source, options.engine)) record = load_mutant_record(source, options.engine);
  const std::vector<Mutant> asked = asked_for(options, source, catalogue, record);
  if (asked.empty()) {
    fmt::print("nothing to measure: the record is of these sources\n");
    return 0;
  }
  Examination examination(options, source, catalogue, std::move(record), asked);
  const std::vector<Mutant> survivors = examination.examine(asked);
  require(examination.without_verdict().empty(),
          "these mutants have no verdict (does one not build? see {}):{}", examination.build_log(),
          examination.without_verdict());
  fmt::print("{} of {} mutants killed\n", asked.size() - survivors.size(), asked.size());
  return std::ranges::all_of(survivors, [](const Mutant& mutant) { return !mutant.survives.empty(); }) ? 0
                                                                                                       : 1;
}

}  // namespace
}  // namespace h3::gate

int main(int argc, char** argv) {
  using namespace h3::gate;
  Options options;
  CLI::App app{
      "Kernel mutants: built beside the unchanged tree, run, recorded in ctest/mutants_<engine>.json"};
  app.footer(
      "Exit codes: 0 all killed or explained, 1 one survives, 2 cannot work like this.\n"
      "Leave the sources alone meanwhile.\n"
      "Examples:\n"
      "  h3_mutants --build build --work /tmp/mutants --stale\n"
      "  h3_mutants --build build --work /tmp/mutants --stale --engine cuda --time-limit 30");
  app.add_option("--build", options.build,
                 "Ninja build of the tree to start from; its tree's record lies in ctest/")
      ->required();
  app.add_option("--work", options.work, "folder for what is built and logged")->required();
  app.add_option("--record", options.record, "file for the record instead of that one");
  app.add_option("--engine", options.engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  app.add_option("--only", options.only, "these mutants");
  app.add_flag("--stale", options.stale,
               "only those without a record, or with one of another file, or that survive unexplained");
  app.add_option("--jobs", options.jobs, "of the builds")->capture_default_str();
  app.add_option("--time-limit", options.time_limit, "seconds after which a silent case hangs")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    return examine_all(options);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "h3_mutants: {} (--help shows how)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "h3_mutants: {}\n", error.what());
    return 2;
  }
}
