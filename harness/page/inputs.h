// What a page is made of: evidence folders of gates and the JSON reports that h3's commands write. Only here
// are files opened; nothing of a gate's receipt is believed, its verdict is that of the ledger.
#pragma once

#include <string>
#include <vector>

#include "ctest/verdict.h"
#include "harness/full_model/full_model_bounds.h"
#include "model/error.h"
#include "model/json.h"

namespace h3::page {

using Json = nlohmann::json;

struct Source {
  std::string name;    // of the file or folder, without the folders above
  std::string schema;  // "h3.replay.v1"; of a gate "ledger"
  std::string sha256;  // of the file; of a gate the root of its ledger
  Json json;           // of a gate {"events", "receipt"}
};

struct GateRun {
  std::size_t source = 0;
  gate::Verdict verdict;
  std::vector<std::string> disagreements;  // of the receipt with the ledger

  bool closed() const { return verdict.closed() && disagreements.empty(); }
};

struct Inputs {
  std::vector<Source> sources;
  std::vector<GateRun> gates;
  std::vector<Ensemble> ensembles;   // the provider's, of the full-model reports among the sources
  std::vector<std::string> ignored;  // files of a folder that no page shows

  std::vector<std::size_t> of(const std::string& schema) const;
};

// Runs `read` on a report; what the report lacks becomes an error that names it.
template <class Read>
auto reading(const Source& source, const Read& read) {
  try {
    return read(source.json);
  } catch (const Json::exception& error) {  // "[json.exception.out_of_range.403] key 'nodes' not found"
    const std::string what = error.what();
    fail("{}: not a {}: {}", source.name, source.schema, what.substr(what.find("] ") + 2));
  }
}

// Each path: a gate's evidence folder, a report, or a folder of such. Errors name the file: it is missing, is
// no JSON, or of a schema that no page shows; in a folder the last is ignored.
Inputs read_inputs(const std::vector<std::string>& paths);

}  // namespace h3::page
