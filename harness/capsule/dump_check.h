// What another runtime computed, as its dump shows it, against the strict rows: the first node that leaves
// them, the class of the difference, and its smallest reproducer.
//
// Isolated: every node is computed from the dump's own inputs, so a fault is the node's own. Chained: the
// whole block from the dump's graph inputs. Where the dump lacks a value, the row's is taken on the way. Each
// is judged strict, by bytes, and calibrated, by the rules of block 0 (harness/compare/calibrated_bound.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/capsule/dump.h"
#include "harness/replay/replay.h"
#include "model/json.h"

namespace h3 {

enum class Strictness { strict, calibrated };

struct DumpRequest {
  std::string dump = {}, names = {};  // files; names may be empty
  std::string config = "released";    // model/named_configs.h
  bool refiner = false;               // a refiner block
  int block = 0;
  std::string layout = {};      // name; empty: the dump's own word, or none
  std::string checkpoint = {};  // folder; empty: synthetic weights
  std::uint64_t seed = kDefaultSeed;
  bool golden = true;                          // without: no bounds, and no calibrated verdict
  Strictness strictness = Strictness::strict;  // what accepted() asks for
  std::string capsules = {};                   // folder; empty: none is written
};

struct DumpJudgement {
  bool equal = false;  // every byte
  std::int64_t differing = 0, elements = 0;
  std::optional<Drift> first;  // set when not equal
  std::string fault;           // its class
  std::optional<GoldenError> golden;
};

struct DumpValue {
  std::string value, by, row;        // by: the node that makes it, or whose backward completes its gradient
  std::vector<std::string> through;  // values that the dump lacks and that the isolated one is computed from
  // Absent where the dump lacks it.
  std::optional<DumpJudgement> isolated, chained;
};

struct DumpReport {
  DumpRequest request;
  std::string graph, weights, runtime;
  std::int64_t rows = 0;
  std::vector<std::string> given;                // graph inputs that the dump lacks and the suite made
  std::optional<std::string> layout_difference;  // one line; absent: it is the named layout, or none is named
  std::vector<DumpValue> forward, backward;      // as they are computed
  std::optional<std::string> capsule;            // its path, or why there is none

  // Of forward or backward; isolated or chained; by bytes or by bounds.
  std::optional<Drift> first_drift(const std::vector<DumpValue>& values, bool isolated,
                                   Strictness strictness) const;
  bool accepted() const;
};

DumpReport check_dump(const DumpRequest& request, const ReplayProgress& progress = {});

std::string to_table(const DumpReport& report, bool colour);
nlohmann::ordered_json to_json(const DumpReport& report);  // h3.dump.v1

// The same values as the engine makes them from the suite's own inputs, under our names: what a dump looks
// like, and the other side of `h3 compare`. Gradients where asked for.
void write_dump(const DumpRequest& request, const std::string& engine, bool backward,
                const std::string& file);

}  // namespace h3
