// A capsule: one drift in a file of at most 1 MB, with everything that shows it again on a CPU without
// weights, layouts or the candidate. HDF5 by the rules of fixtures/hdf5.h:
//
//   description        u8, JSON: schema, graph, value, place, class, declared order, steps, environment,
//   calls calls/I/inputs/J   operands of call I, parameters/J likewise, and of a backward gradient expected,
//   found    the words of the row and of the candidate
#pragma once

#include <optional>
#include <string>

#include "harness/capsule/appearance.h"
#include "harness/capsule/reduction.h"
#include "harness/compare/compare.h"
#include "harness/compare/provider_record.h"
#include "model/json.h"

namespace h3 {

struct Capsule {
  std::string graph;                   // "transformer_blocks.0"
  std::string value;                   // "norm1", of a backward "gradient.norm1"
  std::string fault;                   // class of the whole difference (harness/compare/fault_class.h)
  nlohmann::ordered_json environment;  // whose words were found, by what they were compared
  Reduced reduced;

  const NodeCall& call() const { return reduced.calls.front(); }
  Drift drift(const Tensor& expected, const Tensor& found) const;  // at its place in the whole
};

// Of a difference in the whole result. `environment` says at least "candidate".
Capsule capsule_of(const std::string& graph, const Calls& calls, const Tensor& expected, const Tensor& found,
                   nlohmann::ordered_json environment, const MakeExecution& candidate = {});

// FOLDER/<graph>.<value>.h5, which appears when it is complete; its path. An Error where it would not fit.
std::string write_capsule(const std::string& folder, const Capsule& capsule);

// Errors, one line: no capsule, damaged, larger than a capsule may be.
Capsule read_capsule(const std::string& file);

struct CapsuleReplay {
  Tensor expected;             // by the CPU twin, now
  Tensor golden;               // in FP64, in one fixed order
  Tensor found;                // as recorded, or by the engine that was asked
  bool as_recorded;            // expected has the words that the capsule has
  std::string engine;          // whose words were found
  std::optional<Drift> drift;  // found has other words; of a capsule that was cut short as recorded
  std::optional<Appearance> looks_like;
};

// engine: "cpu", "cuda" or a candidate's library to ask now; empty: the words that were found then.
CapsuleReplay replay_capsule(const Capsule& capsule, const std::string& engine = "");

std::string to_text(const Capsule& capsule, const CapsuleReplay& replay, bool colour);
nlohmann::ordered_json to_json(const Capsule& capsule, const CapsuleReplay& replay);  // h3.capsule_replay.v1

}  // namespace h3
