// What others paste into their cluster and their CI: the scripts parse, name no site, and call what exists.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <vector>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "fixtures/path.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

struct Ran {
  int exit_code;
  std::string output;
};
Ran run(std::vector<std::string> command, const std::string& folder = "") {
  const Scratch scratch;
  const auto end = gate::run_to_end({.arguments = std::move(command),
                                     .working_directory = folder,
                                     .output_file = scratch.path("output"),
                                     .time_limit = 60});
  return {end.exit_code, gate::read_file(scratch.path("output"))};
}

// First groups of all matches.
std::set<std::string> found(const std::string& text, const char* pattern) {
  std::set<std::string> all;
  const std::regex expression(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), expression), end; match != end; ++match)
    all.insert((*match)[1]);
  return all;
}

fs::path slurm_script(const std::string& name) { return data_root() / "ctest/slurm" / (name + ".sbatch"); }

struct SlurmScript : testing::TestWithParam<const char*> {};

TEST_P(SlurmScript, parses_and_names_no_site) {
  const std::string text = gate::read_file(slurm_script(GetParam()).string());
  EXPECT_EQ(run({"bash", "-n", slurm_script(GetParam())}).exit_code, 0);
  const auto directives = found(text, "#SBATCH --([a-z-]+)");
  for (const char* needed : {"job-name", "time", "cpus-per-task"})
    EXPECT_TRUE(directives.contains(needed)) << needed;
  for (const char* of_a_site :
       {"account", "partition", "qos", "constraint", "nodelist", "mail-user", "chdir"})
    EXPECT_FALSE(directives.contains(of_a_site)) << of_a_site;
  EXPECT_EQ(found(text, "(module load|/scratch|/home|conda)"), std::set<std::string>());
}

INSTANTIATE_TEST_SUITE_P(host, SlurmScript,
                         testing::Values("host", "rows", "block0", "fullmodel", "generation", "parallel",
                                         "generate", "fullmodel_candidate", "fullmodel_diagnose",
                                         "fullmodel_reference"),
                         [](const auto& info) { return std::string(info.param); });

struct GateJob : testing::TestWithParam<const char*> {};

// Without Slurm and with a bundle that only says how it was called.
TEST_P(GateJob, runs_its_gate_from_the_bundle) {
  const Scratch scratch;
  write_file(scratch.path("run"), "#!/bin/sh\necho \"$H3_ALLOW_SKIP $*\"\n");
  fs::permissions(scratch.path("run"), fs::perms::owner_all);
  const std::string gate = GetParam(), out = scratch.path("out");
  const auto job = [&](const std::string& bundle) {
    return run(
        {"env", "-u", "SLURM_JOB_ID", "H3_BUNDLE=" + bundle, "H3_OUT=" + out, "bash", slurm_script(gate)},
        scratch.folder());
  };
  const Ran with = job(scratch.folder()), without = job("");
  EXPECT_EQ(with.exit_code, 0);
  EXPECT_EQ(with.output, gate == "parallel" ? fmt::format("0 ctest --out {} -L ^parallel$\n", out)
                                            : fmt::format("0 test --out {} {}\n", out, gate));
  EXPECT_NE(without.exit_code, 0);
  EXPECT_NE(without.output.find("H3_BUNDLE: the folder that cmake --install made"), std::string::npos)
      << without.output;
}

INSTANTIATE_TEST_SUITE_P(host, GateJob,
                         testing::Values("rows", "block0", "fullmodel", "generation", "parallel"),
                         [](const auto& info) { return std::string(info.param); });

struct CiRecipe : testing::TestWithParam<const char*> {
  std::string text() const { return gate::read_file((data_root() / "ctest/ci" / GetParam()).string()); }
};

TEST_P(CiRecipe, parses) {
  const fs::path file = data_root() / "ctest/ci" / GetParam();
  if (file.extension() == ".yml") {
    const Ran parsed = run({"python3", "-c", "import sys, yaml; yaml.safe_load(open(sys.argv[1]))", file});
    EXPECT_EQ(parsed.exit_code, 0) << parsed.output;
  } else {  // Groovy: at least every bracket closes
    std::map<char, int> count;
    for (const char c : text()) ++count[c];
    EXPECT_EQ(count['{'], count['}']);
    EXPECT_EQ(count['('], count[')']);
    EXPECT_EQ(count['['], count[']']);
    EXPECT_EQ(count['\''] % 2, 0);
  }
}

TEST_P(CiRecipe, runs_only_what_exists) {
  const std::string help = run({data_root() / "run", "--help"}).output;
  const auto commands = found(text(), "\\./run ([a-z0-9]+)");
  EXPECT_TRUE(commands.contains("test"));
  for (const auto& command : commands) EXPECT_NE(help.find("\n  " + command), std::string::npos) << command;
  const std::string of_h3 = run({fs::read_symlink("/proc/self/exe").parent_path() / "h3", "--help"}).output;
  for (const auto& command : found(text(), "build/h3 ([a-z]+)"))
    EXPECT_NE(of_h3.find("\n  " + command + " "), std::string::npos) << command;
  for (const auto& path : found(text(), "bundle/(ctest/[a-z0-9/_.]+)"))
    EXPECT_TRUE(fs::exists(data_root() / path)) << path;
}

// What the gates write is what is published, also when they are not closed.
TEST_P(CiRecipe, publishes_junit_and_page) {
  EXPECT_NE(text().find("build/evidence"), std::string::npos);
  EXPECT_NE(text().find("--out page"), std::string::npos);
  EXPECT_TRUE(std::regex_search(text(), std::regex("!cancelled\\(\\)|when: always|always \\{")));
}

INSTANTIATE_TEST_SUITE_P(host, CiRecipe, testing::Values("github.yml", "gitlab.yml", "Jenkinsfile"),
                         [](const auto& info) {
                           const std::string name = info.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace h3
