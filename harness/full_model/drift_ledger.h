// Where the final drift of a forward pass comes from. The golden goes on from where the candidate stands
// after each stage: hybrid 0 is the golden alone, hybrid n the candidate alone, and what hybrid i differs
// from hybrid i - 1 by is what stage i has put into the outputs: its own errors times the sensitivity of all
// that follows. The differences add up to the measured drift, element by element.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/execution/execution.h"
#include "model/json.h"
#include "model/layout.h"

namespace h3 {

// Of one output, relative to the golden's norm.
struct DriftPart {
  double size = 0;   // || hybrid i - hybrid i-1 || / || golden ||
  double share = 0;  // ... along the measured drift, of it: the shares of all stages add up to 1
};

struct StageDrift {
  std::string stage;  // "transformer_blocks.0 to 4" for several
  DriftPart video, audio;
};

struct DriftLedger {
  std::string config, layout, engine;  // the first two are the caller's
  std::vector<StageDrift> stages;      // in execution order
  double video = 0, audio = 0;         // the measured drift of the outputs, relative L2
};

using LedgerProgress = std::function<void(std::int64_t done, std::int64_t steps, const std::string& stage)>;

// Inputs are those of the full-model gate (seed). `blocks` transformer blocks share a line. Golden stages
// run: half the number of lines times that of stages, all that share a stage one after the other, on one copy
// of its parameters.
DriftLedger drift_ledger(const Execution& candidate, const Execution& golden, const Weights& weights,
                         const PackedLayout& layout, std::uint64_t seed, const LedgerProgress& progress = {},
                         std::int64_t blocks = 1);

std::string to_table(const DriftLedger& ledger);
nlohmann::ordered_json to_json(const DriftLedger& ledger);

}  // namespace h3
