// The catalogue of kernel mutants applies to the sources as they are, and the record of who killed them is of
// these sources.
#include "harness/power/mutants.h"

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <ostream>
#include <set>
#include <sstream>

#include "ctest/files.h"
#include "model/digest.h"

namespace h3 {

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

namespace {

std::vector<Mutant> all_mutants() {
  std::vector<Mutant> all;
  for (const char* engine : {"cpu", "cuda"})
    for (const auto& mutant : load_mutants(source_tree(), engine).mutants) all.push_back(mutant);
  return all;
}

struct MutantEdit : testing::TestWithParam<Mutant> {};

TEST_P(MutantEdit, applies_to_its_file_once) {
  const std::string text = gate::read_file((source_tree() / GetParam().file).string());
  EXPECT_NE(mutated(GetParam(), text), text);
}
INSTANTIATE_TEST_SUITE_P(host, MutantEdit, testing::ValuesIn(all_mutants()),
                         [](const auto& info) { return info.param.name; });

// The list of the gate, from its first case on, with a line end before and after each.
const std::string& required_cases(const std::string& gate) {
  static std::map<std::string, std::string> lists;
  if (!lists.contains(gate))
    lists[gate] = gate::read_file((source_tree() / "ctest/required" / (gate + ".txt")).string());
  return lists[gate];
}

bool is_required(const std::string& name) {
  return required_cases(name.substr(0, name.find('/'))).find("\n" + name + "\n") != std::string::npos;
}

// ---- filters: cases that are gone would kill nothing, and nobody would see why

bool selects_a_required_case(const std::string& pattern) {
  std::istringstream cases(required_cases(pattern.substr(0, pattern.find('/'))));
  for (std::string name; std::getline(cases, name);)
    if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
  return false;
}

struct FiltersOfMutants : testing::TestWithParam<const char*> {};

TEST_P(FiltersOfMutants, select_required_cases) {
  const MutantCatalogue catalogue = load_mutants(source_tree(), GetParam());
  std::set<std::string> filters(catalogue.wider.begin(), catalogue.wider.end());
  for (const Mutant& mutant : catalogue.mutants) filters.insert(catalogue.first_cases(mutant));
  for (std::string filter : filters) {
    std::ranges::replace(filter, '-', ':');  // what is left out has to be there, too
    std::istringstream patterns(filter);
    for (std::string pattern; std::getline(patterns, pattern, ':');)
      EXPECT_TRUE(selects_a_required_case(pattern)) << pattern;
  }
}
INSTANTIATE_TEST_SUITE_P(host, FiltersOfMutants, testing::Values("cpu", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

// ---- records

// An engine is here from its first recorded run on.
std::vector<std::string> recorded_engines() {
  std::vector<std::string> engines;
  for (const char* engine : {"cpu", "cuda"})
    if (has_mutant_record(source_tree(), engine)) engines.push_back(engine);
  return engines;
}

struct RecordOfMutants : testing::TestWithParam<std::string> {};

TEST_P(RecordOfMutants, is_of_these_sources) {
  for (const auto& problem : problems_of(load_mutant_record(source_tree(), GetParam()),
                                         load_mutants(source_tree(), GetParam()), source_tree(), is_required))
    ADD_FAILURE() << problem;
}

// On a CPU 90 % of what it can reach; with a GPU 98 % of all.
TEST_P(RecordOfMutants, has_killed_nearly_all) {
  const bool with_gpu = GetParam() == "cuda";
  std::vector<MutantVerdict> verdicts = load_mutant_record(source_tree(), "cpu").verdicts;
  if (with_gpu)
    std::ranges::copy(load_mutant_record(source_tree(), "cuda").verdicts, std::back_inserter(verdicts));
  const auto killed = std::ranges::count_if(verdicts, &MutantVerdict::killed);
  EXPECT_GE(double(killed), (with_gpu ? 0.98 : 0.90) * double(verdicts.size()));
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RecordOfMutants);
INSTANTIATE_TEST_SUITE_P(host, RecordOfMutants, testing::ValuesIn(recorded_engines()),
                         [](const auto& info) { return info.param; });

struct SpoiledRecord {
  const char* name;
  std::function<void(MutantRecord& record, MutantCatalogue& catalogue)> spoil;
  const char* problem;
};
void PrintTo(const SpoiledRecord& row, std::ostream* out) { *out << row.name; }

struct SpoiledMutantRecord : testing::TestWithParam<SpoiledRecord> {};

TEST_P(SpoiledMutantRecord, is_seen) {
  MutantCatalogue catalogue = load_mutants(source_tree(), "cpu");
  catalogue.mutants.resize(3);
  MutantRecord record{"cpu", "", "", {}};
  for (auto& mutant : catalogue.mutants) {
    mutant.survives.clear();
    record.verdicts.push_back({mutant.name, "", true, "host/Case.claims/row"});
    MutantVerdict& verdict = record.verdicts.back();
    verdict.file_sha256 = digest_file((source_tree() / mutant.file).string()).sha256;
  }
  const auto known = [](const std::string& name) { return name == "host/Case.claims/row"; };
  ASSERT_TRUE(problems_of(record, catalogue, source_tree(), known).empty()) << "the unspoiled twin";
  GetParam().spoil(record, catalogue);
  const auto problems = problems_of(record, catalogue, source_tree(), known);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find(GetParam().problem), std::string::npos) << problems[0];
}

const SpoiledRecord kSpoiled[] = {
    {"another_file", [](auto& record, auto&) { record.verdicts[1].file_sha256[0] ^= 1; },
     "measured on another"},
    {"a_mutant_never_measured", [](auto& record, auto&) { record.verdicts.pop_back(); }, "never measured"},
    {"a_mutant_gone", [](auto&, auto& catalogue) { catalogue.mutants.pop_back(); }, "is in no catalogue"},
    {"a_survivor_unexplained", [](auto& record, auto&) { record.verdicts[0].killed = false; },
     "nothing says why"},
    {"an_explanation_too_many", [](auto&, auto& catalogue) { catalogue.mutants[0].survives = "equal bytes"; },
     "says it cannot be"},
    {"a_killer_that_is_not_required",
     [](auto& record, auto&) { record.verdicts[2].by = "host/Gone.claims/row"; }, "no gate requires"},
};
INSTANTIATE_TEST_SUITE_P(host, SpoiledMutantRecord, testing::ValuesIn(kSpoiled),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
