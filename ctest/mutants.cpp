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
#include "ctest/files.h"
#include "ctest/variants.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/error.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string source, work, build, record, engine = "cpu",
                                           jobs = std::to_string(std::thread::hardware_concurrency());
  std::vector<std::string> only, definitions;
  double time_limit = 300;  // of one case: a program that prints nothing for longer hangs
  bool stale = false;
};

struct Run {
  bool ran = true;  // false: no case was selected, or each was skipped, or the program ended before the first
  std::string failed;  // the case that failed, or that was running when the program ended
  bool hung = false;
  double seconds = 0;
};

// The unchanged cases, and beside them a program of the same cases for every mutant. What is written lies in
// the folder --work: no mutant comes near the tree, or near the objects that it starts from.
class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        build_(options.build.empty() ? fs::path(options.work) / "build" : fs::path(options.build)),
        target_(options.engine == "cuda" ? "h3_conformance" : "h3_mutant_cases") {
    fs::create_directories(options.work);
    if (options.build.empty()) configure();
    require(source_of_build(build_) == fs::canonical(options.source), "{}: is built from {}, expected {}",
            build_.string(), source_of_build(build_).string(), options.source);
    require(run_to_end({.arguments = {"cmake", "--build", build_, "--target", target_, "-j", options.jobs},
                        .output_file = log("unchanged")})
                .clean(),
            "the unchanged tree does not build, see {}", log("unchanged"));
  }
  ~Bench() { stop_ = true; }  // before the future waits for the builds

  // Returns at once. A mutant that does not build stops none of the others.
  void start_builds(const std::vector<Variant>& mutants) {
    for (const Variant& mutant : mutants) forget(mutant.name);  // of an earlier run, perhaps of other sources
    write_variants(build_, target_, mutants, options_.work);
    builds_ = std::async(std::launch::async, [this] {  // behind the cases, whose twins want the same cores
      run_to_end(
          {.arguments = {"nice", ninja_of_build(build_), "-C", options_.work, "-k", "0", "-j", options_.jobs},
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
  Run run_unchanged(const std::string& filter) const { return run(build_ / target_, filter); }

  std::string log(const std::string& name) const { return fs::path(options_.work) / (name + ".log"); }

 private:
  void configure() const {
    std::vector<std::string> arguments = {"cmake",
                                          "-S",
                                          options_.source,
                                          "-B",
                                          build_,
                                          "-G",
                                          "Ninja",
                                          "-DCMAKE_BUILD_TYPE=Release",
                                          "-DCMAKE_CXX_FLAGS_RELEASE=-O1"};
    if (options_.engine == "cpu") arguments.push_back("-DCMAKE_CUDA_COMPILER=NOTFOUND");
    for (const auto& definition : options_.definitions) arguments.push_back("-D" + definition);
    require(run_to_end({.arguments = arguments, .output_file = log("configure")}).clean(),
            "cmake failed, see {}", log("configure"));
  }

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
  const fs::path build_;
  const std::string target_;
  std::atomic<bool> stop_ = false;
  std::future<void> builds_;
};

// A survivor that nothing explains is measured again, too.
bool is_stale(const MutantVerdict* known, const Mutant& mutant, const std::string& source) {
  return known == nullptr || known->file_sha256 != digest_file(source + "/" + mutant.file).sha256 ||
         (!known->killed && mutant.survives.empty());
}

std::vector<Mutant> asked_for(const Options& options, const MutantCatalogue& catalogue,
                              const MutantRecord& record) {
  std::vector<Mutant> asked;
  for (const auto& mutant : catalogue.mutants)
    if (options.only.empty() ? !options.stale || is_stale(record.find(mutant.name), mutant, options.source)
                             : std::ranges::count(options.only, mutant.name) > 0)
      asked.push_back(mutant);
  require(options.only.empty() || asked.size() == options.only.size(),
          "a mutant of --only is not in the catalogue");
  return asked;
}

class Examination {
 public:
  Examination(const Options& options, const MutantCatalogue& catalogue, MutantRecord record,
              const std::vector<Mutant>& mutants)
      : catalogue_(catalogue),
        path_(options.record.empty() ? mutant_record_path(options.source, options.engine).string()
                                     : options.record),
        record_(std::move(record)),
        bench_(options),
        count_(mutants.size()) {
    std::erase_if(record_.verdicts, [&](const MutantVerdict& verdict) {
      return std::ranges::find(catalogue.mutants, verdict.name, &Mutant::name) == catalogue.mutants.end();
    });
    record_.engine = options.engine;
    record_.sources_sha256 = sources_sha256(options.source);
    std::vector<Variant> variants;
    for (const Mutant& mutant : mutants) {
      const std::string text = read_file((fs::path(options.source) / mutant.file).string());
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
    for (const Mutant& mutant : waiting) without_verdict_ += " " + mutant.name;
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
    if (!run.ran) {
      without_verdict_ += " " + mutant.name;
      bench_.forget(mutant.name);
      return false;
    }
    const bool killed = !run.failed.empty();
    if (killed) {
      const Run twin = bench_.run_unchanged(run.failed);
      require(twin.ran && twin.failed.empty(), "{}: without {} it fails, too, see {}", run.failed,
              mutant.name, bench_.log("cases"));
      bench_.forget(mutant.name);
      ++killed_;
    }
    write({mutant.name, sha256_.at(mutant.file), killed, run.failed});
    fmt::print("{:>3} of {} killed  {:<44} {:5.1f} s  {}{}\n", killed_, count_, mutant.name, run.seconds,
               killed ? "killed by " + run.failed : "survives " + filter, run.hung ? ", which hangs" : "");
    std::fflush(stdout);
    return !killed;
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
  const MutantCatalogue catalogue = load_mutants(options.source, options.engine);
  MutantRecord record;
  if (has_mutant_record(options.source, options.engine))
    record = load_mutant_record(options.source, options.engine);
  const std::vector<Mutant> asked = asked_for(options, catalogue, record);
  if (asked.empty()) {
    fmt::print("nothing to measure: the record is of these sources\n");
    return 0;
  }
  Examination examination(options, catalogue, std::move(record), asked);
  const std::vector<Mutant> survivors = examination.examine(asked);
  require(examination.without_verdict().empty(), "these mutants do not build or run no case, see {}:{}",
          examination.build_log(), examination.without_verdict());
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
      "  h3_mutants --source . --work /tmp/mutants --stale\n"
      "  h3_mutants --source . --work /tmp/mutants --stale --engine cuda --build build --time-limit 60");
  app.add_option("--source", options.source, "source tree; its record lies in ctest/")->required();
  app.add_option("--work", options.work, "folder for what is built and logged")->required();
  app.add_option("--build", options.build,
                 "a Ninja build of the tree to start from; without it one is made in --work");
  app.add_option("-D,--define", options.definitions, "variables of that one, such as XXHASH_INCLUDE_DIR=...")
      ->allow_extra_args(false);
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
