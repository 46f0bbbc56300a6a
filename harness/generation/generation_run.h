// One seed's generation in a folder of its own, one evaluation after the other, killed and resumed as often
// as a cluster likes: the bytes are those of a run that was left alone.
//
//   contract.json           the contract's own bytes
//   run.json                the identity that the run is tied to, and the builds that have worked on it
//   step_000.safetensors    tensors of the step (harness/generation/trajectory.h)
//   step_000.json           digest of that file, of the evaluation's inputs and of each tensor; the link
//   trajectory.h5           the sealed record, when all steps are there
//   log.jsonl               seconds per evaluation; says nothing about bytes
//   lock                    held by the task that works on the folder
//
// A step counts when its .json is there, which is written last; every file appears by a rename after a sync.
// What a killed task left half-written is removed or written again. On resume every saved step is replayed:
// its inputs, its Euler step and its digests are derived again and held against the record, and anything that
// is not as it was (identity, bytes, link) is refused with one line, never repaired.
#pragma once

#include <functional>
#include <string>

#include "harness/generation/generation_state.h"
#include "harness/generation/run_identity.h"

namespace h3 {

// One evaluation of the model: from evaluation_inputs() to video_output and audio_output, on the CPU.
using Evaluation = std::function<Values(const Values& inputs)>;

struct RunRecord {
  RunIdentity identity;
  std::string build;                // SHA-256 of the program that may go on with the run
  std::vector<std::string> builds;  // those that could before it was adopted
};

// Creates the folder. Refuses one that holds a run.
void begin_run(const std::string& folder, const GenerationContract& contract, const RunIdentity& identity,
               const std::string& build);

GenerationContract contract_of_run(const std::string& folder);
RunRecord record_of_run(const std::string& folder);

// Where a run's record is.
std::string trajectory_of_run(const std::string& folder);

struct RunLimits {
  std::int64_t evaluations = -1;  // at most this many in this task; negative: all that are left
  bool verify_last_step = false;  // evaluate the last saved step again and compare every byte
};

struct RunOutcome {
  std::int64_t replayed = 0, evaluated = 0;
  bool complete = false;  // the trajectory is sealed
};

using RunProgress = std::function<void(std::int64_t done, const std::string& next)>;

// Replays what is saved, evaluates what is left, seals. `now` and `build` are what would go on with the run.
RunOutcome continue_run(const std::string& folder, const RunIdentity& now, const std::string& build,
                        const Evaluation& evaluate, const RunLimits& limits = {},
                        const RunProgress& progress = {});

// Hands a run to another build whose identity, source trees included, is the same.
void adopt_run(const std::string& folder, const RunIdentity& now, const std::string& build);

}  // namespace h3
