// Kernel mutants: faults in the arithmetic and the graph, as edits of the sources. They exist as data only
// (ctest/mutants.json); ctest/mutants.cpp builds a program of cases with each and runs it. What was measured
// is a record (ctest/mutants_cpu.json, ctest/mutants_cuda.json): who killed which mutant, and the SHA-256 of
// the file that was edited. A record of another file is stale.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "model/json.h"

namespace h3 {

struct Mutant {
  std::string name, kind;
  std::string file, find, replace;  // `find` stands exactly once in the file
  std::string cases;                // the filter of those that are run first; empty: its file's
  std::string survives;             // why no case can kill it; empty: one has to
};

struct MutantCatalogue {
  std::vector<Mutant> mutants;
  std::map<std::string, std::string> cases;  // by file
  std::vector<std::string> wider;            // of those that are run when the first have not noticed
  std::string without;                       // slow cases that say nothing about the candidate

  const std::string& first_cases(const Mutant& mutant) const;
};

// engine "cpu": arithmetic that twins and kernels share, and the graph; "cuda": what only the GPU runs.
MutantCatalogue load_mutants(const std::filesystem::path& source, const std::string& engine);

// The file with the mutant's edit. Errors: it does not apply exactly once.
std::string mutated(const Mutant& mutant, const std::string& text);

struct MutantVerdict {
  std::string name, file_sha256;
  bool killed = false;
  std::string by;  // the case that failed first, or "the build's refusal"
};

struct MutantRecord {
  std::string engine;
  std::string sources_sha256;  // of the tree that it was measured on last
  std::string machine;         // and the GPU or the CPU; empty: not written down
  std::vector<MutantVerdict> verdicts;

  const MutantVerdict* find(const std::string& name) const;
};

std::filesystem::path mutant_record_path(const std::filesystem::path& source, const std::string& engine);
MutantRecord mutant_record_from_json(const nlohmann::json& json, const std::string& what);
nlohmann::ordered_json to_json(const MutantRecord& record);
bool has_mutant_record(const std::filesystem::path& source, const std::string& engine);
MutantRecord load_mutant_record(const std::filesystem::path& source, const std::string& engine);

// What keeps a record from standing for the catalogue and the sources as they are now, one line each: a
// mutant without a verdict, a verdict on another file or on no mutant, a survivor that nothing explains, a
// kill by a case that `is_required` does not know.
std::vector<std::string> problems_of(const MutantRecord& record, const MutantCatalogue& catalogue,
                                     const std::filesystem::path& source,
                                     const std::function<bool(const std::string& name)>& is_required);

// SHA-256 over the lines "<sha256> <path>\n" of the sources that a verdict can depend on, sorted by path.
std::string sources_sha256(const std::filesystem::path& source);

// The source tree that this program was built from.
std::filesystem::path source_tree();

}  // namespace h3
