// Applies kernel mutants (ctest/mutants.json) one at a time to a copy of the source tree, builds the cases
// and runs them, and records who killed which. The copy and its build are in a folder of their own: no mutant
// ever comes near the tree or the build that is shipped.
#include "harness/power/mutants.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "ctest/child.h"
#include "ctest/files.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/error.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string source, work, engine = "cpu", linker, jobs = "2";
  std::vector<std::string> only;
  double time_limit = 300;  // of one run of cases: what takes longer hangs
  bool stale = false;
};

struct Run {
  bool failed = false;
  std::string by;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : options_(options),
        tree_(fs::path(options.work) / "source"),
        build_(fs::path(options.work) / "build"),
        target_(options.engine == "cuda" ? "h3_conformance" : "h3_mutant_cases") {
    for (const char* part : {"CMakeLists.txt", "CMakePresets.json", "conformance", "ctest", "fixtures",
                             "golden", "harness", "kernels", "model"})
      copy_changed(fs::path(options.source) / part, tree_ / part);
    std::vector<std::string> configure = {"cmake",
                                          "-S",
                                          tree_,
                                          "-B",
                                          build_,
                                          "-G",
                                          "Ninja",
                                          "-DCMAKE_BUILD_TYPE=Release",
                                          "-DCMAKE_CXX_FLAGS_RELEASE=-O1"};
    if (options.engine == "cpu") configure.push_back("-DCMAKE_CUDA_COMPILER=NOTFOUND");
    if (!options.linker.empty()) configure.push_back("-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=" + options.linker);
    require(run_to_end({.arguments = configure, .output_file = log("configure")}).clean(),
            "cmake failed, see {}", log("configure"));
    require(build(), "the unchanged tree does not build, see {}", log("build"));
  }

  const fs::path& tree() const { return tree_; }
  std::string read(const std::string& file) const { return read_file(tree_ / file); }
  void write(const std::string& file, const std::string& text) const { write_file(tree_ / file, text); }

  bool build() const {
    return run_to_end({.arguments = {"cmake", "--build", build_, "--target", target_, "-j", options_.jobs},
                       .output_file = log("build")})
        .clean();
  }

  Run run(const std::string& filter) const {
    const ProcessEnd end = run_to_end({.arguments = {(build_ / target_).string(), "--gtest_filter=" + filter,
                                                     "--gtest_fail_fast", "--gtest_color=no"},
                                       .output_file = log("cases"),
                                       .time_limit = options_.time_limit});
    if (end.clean()) return {};
    // The case that failed first, or that was running when the process ended.
    std::ifstream lines(log("cases"));
    std::string running, line;
    const std::string begins = "[ RUN      ] ", fails = "[  FAILED  ] ";
    while (std::getline(lines, line)) {
      if (line.starts_with(begins)) running = line.substr(begins.size());
      if (line.starts_with(fails))
        return {true, line.substr(fails.size(), line.find_first_of(" ,", fails.size()) - fails.size())};
    }
    return {true, running.empty() ? "the start of the process" : running};
  }

 private:
  std::string log(const char* name) const { return (fs::path(options_.work) / name).string() + ".log"; }

  // Files that are the same keep their time, so that only what has changed is built.
  static void copy_changed(const fs::path& from, const fs::path& to) {
    if (!fs::is_directory(from)) {
      fs::create_directories(to.parent_path());
      if (!fs::exists(to) || fs::file_size(to) != fs::file_size(from) ||
          digest_file(to).sha256 != digest_file(from).sha256)
        fs::copy_file(from, to, fs::copy_options::overwrite_existing);
      return;
    }
    for (const auto& entry : fs::directory_iterator(from))
      copy_changed(entry.path(), to / entry.path().filename());
  }

  const Options& options_;
  const fs::path tree_, build_;
  const std::string target_;
};

// Of one mutant; nothing when it does not build. The tree is as it was afterwards.
std::optional<MutantVerdict> examine(const Bench& bench, const MutantCatalogue& catalogue,
                                     const Mutant& mutant) {
  const std::string original = bench.read(mutant.file);
  MutantVerdict verdict{mutant.name, sha256_hex(original), false, ""};
  bench.write(mutant.file, mutated(mutant, original));
  const bool built = bench.build();
  Run run;
  if (built) {
    run = bench.run(catalogue.cases.at(mutant.file) + "-" + catalogue.without);
    if (!run.failed) run = bench.run(catalogue.wider + "-" + catalogue.without);
  }
  bench.write(mutant.file, original);
  if (!built) return {};
  verdict.killed = run.failed;
  verdict.by = run.by;
  return verdict;
}

bool is_stale(const MutantVerdict* known, const Mutant& mutant, const std::string& source) {
  return known == nullptr || known->file_sha256 != digest_file(source + "/" + mutant.file).sha256;
}

int examine_all(const Options& options) {
  const MutantCatalogue catalogue = load_mutants(options.source, options.engine);
  const fs::path path = mutant_record_path(options.source, options.engine);
  MutantRecord record;
  if (fs::exists(path)) record = load_mutant_record(options.source, options.engine);
  record.engine = options.engine;

  std::vector<Mutant> asked;
  for (const auto& mutant : catalogue.mutants)
    if (options.only.empty() ? !options.stale || is_stale(record.find(mutant.name), mutant, options.source)
                             : std::ranges::count(options.only, mutant.name) > 0)
      asked.push_back(mutant);
  require(options.only.empty() || asked.size() == options.only.size(),
          "a mutant of --only is not in the catalogue");
  std::ranges::stable_sort(asked, {}, &Mutant::file);  // a file is restored once, not once a mutant

  const Bench bench(options);
  const Run unchanged = bench.run(catalogue.wider + "-" + catalogue.without);
  require(!unchanged.failed, "the unchanged tree fails in {}", unchanged.by);
  const std::string sources = sources_sha256(bench.tree());
  std::size_t survivors = 0;
  std::string unbuilt;  // a fault of the catalogue
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const auto examined = examine(bench, catalogue, asked[i]);
    if (!examined) {
      unbuilt += " " + asked[i].name;
      continue;
    }
    const MutantVerdict& verdict = *examined;
    survivors += !verdict.killed;
    fmt::print("{:>3}/{} {:<44} {}\n", i + 1, asked.size(), verdict.name,
               verdict.killed ? "killed by " + verdict.by : "SURVIVED");
    std::fflush(stdout);
    if (const auto known = std::ranges::find(record.verdicts, verdict.name, &MutantVerdict::name);
        known != record.verdicts.end())
      *known = verdict;
    else
      record.verdicts.push_back(verdict);
    record.sources_sha256 = sources;
    write_file(path.string(), to_json(record).dump(1) + "\n");
  }
  std::erase_if(record.verdicts, [&](const MutantVerdict& verdict) {
    return std::ranges::find(catalogue.mutants, verdict.name, &Mutant::name) == catalogue.mutants.end();
  });
  write_file(path.string(), to_json(record).dump(1) + "\n");
  fmt::print("{} of {} mutants killed\n", asked.size() - survivors, asked.size());
  require(unbuilt.empty(), "{}: these mutants do not build:{}", options.source, unbuilt);
  return 0;
}

}  // namespace
}  // namespace h3::gate

int main(int argc, char** argv) {
  using namespace h3::gate;
  Options options;
  CLI::App app{"Kernel mutants: applied to a copy of the tree, built, run, recorded"};
  app.add_option("--source", options.source, "source tree; its record is written to ctest/")->required();
  app.add_option("--work", options.work, "folder for the copy and its build")->required();
  app.add_option("--engine", options.engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  app.add_option("--only", options.only, "these mutants");
  app.add_flag("--stale", options.stale, "only mutants whose record is missing or of another file");
  app.add_option("--jobs", options.jobs, "of the build")->capture_default_str();
  app.add_option("--linker", options.linker, "of the cases, such as lld: there is one link a mutant");
  app.add_option("--time-limit", options.time_limit, "seconds of a run of cases")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return examine_all(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "h3_mutants: {}\n", error.what());
    return 2;
  }
}
