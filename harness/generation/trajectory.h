// The record of a generation: what every evaluation was given, said and led to, chained by digests and
// sealed. A trajectory is compared and verified on any machine; no GPU and no weights are needed.
//
// trajectory.h5
//   attributes of /   schema, contract (its text), identity (JSON), seal
//   schedule/         video_sigmas, video_timesteps, audio_sigmas, audio_timesteps
//   initial/          video_rows (conditions mixed with their noise, then noise), audio_rows
//   step_000/ ...     video_velocity, audio_velocity, video_rows, audio_rows (after the step);
//                     attributes inputs, link
//
// The first link is the SHA-256 of the identity and of the initial rows, every further one that of the link
// before and of a step's digests; the seal that of the last link and the number of steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/hdf5.h"
#include "harness/generation/generation_state.h"
#include "harness/generation/run_identity.h"
#include "model/json.h"

namespace h3 {

inline constexpr const char* kStepTensors[] = {"video_velocity", "audio_velocity", "video_rows",
                                               "audio_rows"};

std::string step_group(std::int64_t evaluation);  // "step_007"

// The tensors of a step: a velocity for each modality, and the state it led to.
Values step_tensors(const Values& velocity, const GenerationState& after);
GenerationState state_of(const Values& step);
Values velocity_of(const Values& step);  // video_output, audio_output

struct StepRecord {
  std::int64_t evaluation = 0;
  std::string inputs;                          // SHA-256 of all that the evaluation was given
  std::map<std::string, std::string> tensors;  // SHA-256 of each of kStepTensors
  std::string link;
  bool operator==(const StepRecord&) const = default;
};

std::string first_link(const RunIdentity& identity, const GenerationState& initial);
// Of a step whose inputs and tensors have these digests; its own link is not read.
std::string link_of(const StepRecord& step, const std::string& previous_link);
StepRecord record_of(std::int64_t evaluation, const std::string& inputs, const Values& step,
                     const std::string& previous_link);

// Appears under its name only when it is complete. `steps` gives the tensors of an evaluation, called once
// each, in order.
void write_trajectory(const std::string& path, const GenerationContract& contract,
                      const RunIdentity& identity, const GenerationState& initial,
                      const std::vector<StepRecord>& records,
                      const std::function<Values(std::int64_t evaluation)>& steps);

class Trajectory {
 public:
  explicit Trajectory(const std::string& path);  // the header is held against the contract and its layout

  const std::string& path() const { return file_.path(); }
  const GenerationContract& contract() const { return contract_; }
  const RunIdentity& identity() const { return identity_; }
  std::int64_t evaluations() const { return contract_.evaluations(); }
  Tensor schedule(const std::string& name) const;
  GenerationState initial() const;
  Values step(std::int64_t evaluation) const;
  StepRecord record(std::int64_t evaluation) const;  // as the file has it
  std::string seal() const;

 private:
  Hdf5Reader file_;
  GenerationContract contract_;
  RunIdentity identity_;
};

std::string seal_of(const std::string& last_link, std::int64_t evaluations);

// Derives all of it again but the velocities: schedules, noise, what every evaluation was given, every Euler
// step, every link and the seal. An Error names the first thing that is not as the file has it.
void verify_trajectory(const Trajectory& trajectory);

// ---- two of one contract and seed ----

struct TrajectoryDrift {
  std::int64_t evaluation;  // -1: before the first
  std::string kind;         // "sigmas", "timesteps", "initial rows", "velocity", "rows"
  std::string modality;     // "video" or "audio"
  std::string where;        // how many elements differ, and the first of them
  std::string to_string() const;
};

struct StepDistance {
  std::int64_t evaluation;
  double video_velocity, audio_velocity, video_rows, audio_rows;  // relative L2; 0: the same bytes
};

struct DriftReport {
  std::optional<TrajectoryDrift> first;
  std::vector<StepDistance> steps;
  bool same() const { return !first; }
};

// Error unless both are of one contract and seed and begin with the same rows, byte for byte: only then does
// a distance between their results say something about what computed them.
void require_same_start(const Trajectory& expected, const Trajectory& actual);

// In the order of execution: schedules, initial rows, then step by step velocity and rows, video before
// audio. Error for another contract or seed: those two were never meant to be the same.
DriftReport drift_report(const Trajectory& expected, const Trajectory& actual);

nlohmann::ordered_json to_json(const DriftReport& report);

}  // namespace h3
