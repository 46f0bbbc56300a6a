#include "harness/generation/trajectory.h"

#include <algorithm>

#include "harness/compare/compare.h"
#include "harness/compare/first_difference.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/json.h"

namespace h3 {
namespace {

constexpr const char* kSchema = "h3.trajectory.v1";
constexpr int kQuickly = 1;  // deflate: noise hardly shrinks

Tensor tensor_of(const std::vector<float>& values) {
  Tensor tensor(DType::fp32, {std::int64_t(values.size())});
  std::ranges::copy(values, tensor.data<float>());
  return tensor;
}

// In the order in which they are compared.
std::vector<std::pair<std::string, Tensor>> schedules_of(const GenerationContract& contract) {
  const Schedule video = contract.video_schedule(), audio = contract.audio_schedule();
  return {{"video_sigmas", tensor_of(video.sigmas)},
          {"audio_sigmas", tensor_of(audio.sigmas)},
          {"video_timesteps", tensor_of(video.timesteps)},
          {"audio_timesteps", tensor_of(audio.timesteps)}};
}

void require_same(const std::string& what, const Tensor& derived, const Tensor& recorded) {
  if (identical(derived, recorded)) return;
  const Comparison c = compare(derived, recorded);
  if (!c.mismatch.empty()) fail("{}: {}", what, c.mismatch);
  fail("{}: {} of {} elements are not what follows from the contract, the first in row {}", what, c.differing,
       c.elements, c.first_row);
}

}  // namespace

std::string step_group(std::int64_t evaluation) { return fmt::format("step_{:03}", evaluation); }

Values step_tensors(const Values& velocity, const GenerationState& after) {
  return {{"video_velocity", velocity.at("video_output")},
          {"audio_velocity", velocity.at("audio_output")},
          {"video_rows", after.video_rows},
          {"audio_rows", after.audio_rows}};
}

GenerationState state_of(const Values& step) { return {step.at("video_rows"), step.at("audio_rows")}; }

Values velocity_of(const Values& step) {
  return {{"video_output", step.at("video_velocity")}, {"audio_output", step.at("audio_velocity")}};
}

std::string first_link(const RunIdentity& identity, const GenerationState& initial) {
  return sha256_hex(fmt::format("h3 trajectory\n{}\nvideo_rows {}\naudio_rows {}\n", to_json(identity).dump(),
                                sha256_hex(initial.video_rows.byte_span()),
                                sha256_hex(initial.audio_rows.byte_span())));
}

std::string link_of(const StepRecord& step, const std::string& previous_link) {
  std::string text = fmt::format("{}\nstep {}\ninputs {}\n", previous_link, step.evaluation, step.inputs);
  for (const char* name : kStepTensors) text += fmt::format("{} {}\n", name, step.tensors.at(name));
  return sha256_hex(text);
}

StepRecord record_of(std::int64_t evaluation, const std::string& inputs, const Values& step,
                     const std::string& previous_link) {
  StepRecord record{evaluation, inputs, {}, ""};
  for (const char* name : kStepTensors) record.tensors[name] = sha256_hex(step.at(name).byte_span());
  record.link = link_of(record, previous_link);
  return record;
}

std::string seal_of(const std::string& last_link, std::int64_t evaluations) {
  return sha256_hex(fmt::format("{}\nsealed after {} steps\n", last_link, evaluations));
}

void write_trajectory(const std::string& path, const GenerationContract& contract,
                      const RunIdentity& identity, const GenerationState& initial,
                      const std::vector<StepRecord>& records,
                      const std::function<Values(std::int64_t)>& steps) {
  require(std::int64_t(records.size()) == contract.evaluations(), "{}: {} steps, the contract has {}", path,
          records.size(), contract.evaluations());
  Hdf5Writer file(path, kQuickly);
  file.attribute("/", "schema", kSchema);
  file.attribute("/", "contract", contract.text);
  file.attribute("/", "identity", to_json(identity).dump());
  file.attribute("/", "seal", seal_of(records.back().link, contract.evaluations()));
  for (const auto& [name, values] : schedules_of(contract)) file.write("schedule/" + name, values);
  file.write("initial/video_rows", initial.video_rows);
  file.write("initial/audio_rows", initial.audio_rows);
  for (const StepRecord& record : records) {
    const Values step = steps(record.evaluation);
    const std::string group = step_group(record.evaluation);
    for (const char* name : kStepTensors) file.write(group + "/" + name, step.at(name));
    file.attribute(group, "inputs", record.inputs);
    file.attribute(group, "link", record.link);
  }
  file.close();
}

Trajectory::Trajectory(const std::string& path) : file_(path) {
  require(file_.has_attribute("/", "schema") && file_.string_attribute("/", "schema") == kSchema,
          "{}: not a trajectory ({})", path, kSchema);
  contract_ = parse_contract(file_.string_attribute("/", "contract"), path + ": contract");
  identity_ = run_identity_from_json(parse_json(file_.string_attribute("/", "identity"), path), path);
  require(identity_.contract_sha256 == contract_.sha256, "{}: its identity names contract {}, it holds {}",
          path, identity_.contract_sha256, contract_.sha256);
  require(std::ranges::count(contract_.seeds, identity_.seed) == 1, "{}: seed {}, its contract is for {}",
          path, identity_.seed, fmt::join(contract_.seeds, ", "));
  const auto groups = file_.list();
  const auto steps =
      std::ranges::count_if(groups, [](const auto& name) { return name.starts_with("step_"); });
  require(steps == evaluations() && file_.contains(step_group(evaluations() - 1)),
          "{}: {} steps, the contract has {}", path, steps, evaluations());
}

Tensor Trajectory::schedule(const std::string& name) const { return file_.read("schedule/" + name); }

GenerationState Trajectory::initial() const {
  return {file_.read("initial/video_rows"), file_.read("initial/audio_rows")};
}

Values Trajectory::step(std::int64_t evaluation) const {
  Values values;
  for (const char* name : kStepTensors) values[name] = file_.read(step_group(evaluation) + "/" + name);
  return values;
}

StepRecord Trajectory::record(std::int64_t evaluation) const {
  const std::string group = step_group(evaluation);
  StepRecord record{
      evaluation, file_.string_attribute(group, "inputs"), {}, file_.string_attribute(group, "link")};
  for (const char* name : kStepTensors)
    record.tensors[name] = file_.string_attribute(group + "/" + name, "sha256");
  return record;
}

std::string Trajectory::seal() const { return file_.string_attribute("/", "seal"); }

void verify_trajectory(const Trajectory& trajectory) {
  const GenerationContract& contract = trajectory.contract();
  for (const auto& [name, values] : schedules_of(contract))
    require_same(trajectory.path() + ": schedule/" + name, values, trajectory.schedule(name));
  GenerationState state = initial_state(contract, trajectory.identity().seed, keyframe_latents(contract));
  const GenerationState recorded = trajectory.initial();
  require_same(trajectory.path() + ": initial/video_rows", state.video_rows, recorded.video_rows);
  require_same(trajectory.path() + ": initial/audio_rows", state.audio_rows, recorded.audio_rows);

  const Tensor text = text_condition(contract);
  std::string link = first_link(trajectory.identity(), state);
  for (std::int64_t evaluation = 0; evaluation < trajectory.evaluations(); ++evaluation) {
    const std::string where = fmt::format("{}: {}", trajectory.path(), step_group(evaluation));
    const PackedLayout layout = contract.layout(evaluation);
    const Values step = trajectory.step(evaluation);
    const std::string inputs = sha256_of(evaluation_inputs(layout, state, text));
    state = euler_step(contract, layout, evaluation, state, velocity_of(step));
    require_same(where + "/video_rows", state.video_rows, step.at("video_rows"));
    require_same(where + "/audio_rows", state.audio_rows, step.at("audio_rows"));
    const StepRecord derived = record_of(evaluation, inputs, step, link);
    require(derived == trajectory.record(evaluation),
            "{}: its digests or its link do not follow from the step", where);
    link = derived.link;
  }
  require(trajectory.seal() == seal_of(link, trajectory.evaluations()), "{}: broken seal", trajectory.path());
}

// ---- two trajectories ----

namespace {

// Collects the first difference, and says how far apart two tensors are.
class Differences {
 public:
  explicit Differences(std::optional<TrajectoryDrift>& first) : first_(first) {}

  double between(std::int64_t evaluation, const std::string& kind, const std::string& modality,
                 const Tensor& expected, const Tensor& actual) {
    if (identical(expected, actual)) return 0;
    const Comparison c = compare(expected, actual);
    if (!first_) first_ = TrajectoryDrift{evaluation, kind, modality, place(c, expected, actual)};
    return c.relative_l2;
  }

 private:
  static std::string place(const Comparison& c, const Tensor& expected, const Tensor& actual) {
    if (!c.mismatch.empty()) return c.mismatch;
    return fmt::format("{} of {} elements, the first in row {}, element {}: {} for {}", c.differing,
                       c.elements, c.first_row, c.first_differing % expected.cols(),
                       actual.at(c.first_differing), expected.at(c.first_differing));
  }
  std::optional<TrajectoryDrift>& first_;
};

}  // namespace

std::string TrajectoryDrift::to_string() const {
  const std::string step = evaluation < 0 ? "before the first step" : fmt::format("step {}", evaluation);
  return fmt::format("{}, {} {}: {}", step, modality, kind, where);
}

namespace {

void require_same_request(const Trajectory& expected, const Trajectory& actual) {
  require(expected.contract().sha256 == actual.contract().sha256, "{}: contract {}, {} has {}", actual.path(),
          actual.contract().sha256, expected.path(), expected.contract().sha256);
  require(expected.identity().seed == actual.identity().seed, "{}: seed {}, {} has {}", actual.path(),
          actual.identity().seed, expected.path(), expected.identity().seed);
}

}  // namespace

void require_same_start(const Trajectory& expected, const Trajectory& actual) {
  require_same_request(expected, actual);
  const GenerationState a = expected.initial(), b = actual.initial();
  require(identical(a.video_rows, b.video_rows), "{}: its video begins with other rows than {}",
          actual.path(), expected.path());
  require(identical(a.audio_rows, b.audio_rows), "{}: its audio begins with other rows than {}",
          actual.path(), expected.path());
}

DriftReport drift_report(const Trajectory& expected, const Trajectory& actual) {
  require_same_request(expected, actual);
  DriftReport report;
  Differences differences(report.first);
  for (const auto& [name, derived] : schedules_of(expected.contract())) {
    const auto underscore = name.find('_');
    differences.between(-1, name.substr(underscore + 1), name.substr(0, underscore), expected.schedule(name),
                        actual.schedule(name));
  }
  const GenerationState from = expected.initial(), to = actual.initial();
  differences.between(-1, "initial rows", "video", from.video_rows, to.video_rows);
  differences.between(-1, "initial rows", "audio", from.audio_rows, to.audio_rows);
  for (std::int64_t evaluation = 0; evaluation < expected.evaluations(); ++evaluation) {
    const Values a = expected.step(evaluation), b = actual.step(evaluation);
    const auto apart = [&](const char* kind, const char* modality, const char* tensor) {
      return differences.between(evaluation, kind, modality, a.at(tensor), b.at(tensor));
    };
    StepDistance distance{evaluation, 0, 0, 0, 0};
    distance.video_velocity = apart("velocity", "video", "video_velocity");
    distance.audio_velocity = apart("velocity", "audio", "audio_velocity");
    distance.video_rows = apart("rows", "video", "video_rows");
    distance.audio_rows = apart("rows", "audio", "audio_rows");
    report.steps.push_back(distance);
  }
  return report;
}

nlohmann::ordered_json to_json(const DriftReport& report) {
  nlohmann::ordered_json json = {{"schema", "h3.trajectory_drift.v1"}, {"first", nullptr}};
  if (report.first)
    json["first"] = {{"evaluation", report.first->evaluation},
                     {"kind", report.first->kind},
                     {"modality", report.first->modality},
                     {"where", report.first->where}};
  for (const StepDistance& step : report.steps)
    json["relative_l2"].push_back({{"evaluation", step.evaluation},
                                   {"video_velocity", step.video_velocity},
                                   {"audio_velocity", step.audio_velocity},
                                   {"video_rows", step.video_rows},
                                   {"audio_rows", step.audio_rows}});
  return json;
}

}  // namespace h3
