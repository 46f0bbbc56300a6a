#include "harness/generation/generation_run.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/compare/first_difference.h"
#include "harness/generation/trajectory.h"
#include "model/atomic_file.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/json.h"
#include "model/safetensors.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Files {
  std::string folder;
  std::string contract() const { return folder + "/contract.json"; }
  std::string run() const { return folder + "/run.json"; }
  std::string log() const { return folder + "/log.jsonl"; }
  std::string lock() const { return folder + "/lock"; }
  std::string trajectory() const { return folder + "/trajectory.h5"; }
  std::string tensors(std::int64_t step) const {
    return fmt::format("{}/step_{:03}.safetensors", folder, step);
  }
  std::string record(std::int64_t step) const { return fmt::format("{}/step_{:03}.json", folder, step); }
};

// Held until the task ends, however it ends.
class FolderLock {
 public:
  explicit FolderLock(const Files& files)
      : file_(::open(files.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    require(file_ >= 0, "{}: cannot open: {}", files.lock(), std::strerror(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    const int reason = errno;
    ::close(file_);
    fail("{}: {}", files.folder,
         reason == EWOULDBLOCK ? "another task is working on this run" : std::strerror(reason));
  }
  ~FolderLock() { ::close(file_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int file_;
};

void remove_half_written(const std::string& folder) {
  std::vector<fs::path> left;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".tmp") left.push_back(entry.path());
  for (const auto& path : left) fs::remove(path);
}

void write_run(const Files& files, const RunRecord& run) {
  const Json json = {{"schema", "h3.generation_run.v1"},
                     {"identity", to_json(run.identity)},
                     {"build", run.build},
                     {"builds", run.builds}};
  write_file(files.run(), json.dump(2) + "\n");
}

// ---- one saved step ----

struct SavedStep {
  StepRecord record;
  std::string file_sha256;
};

void write_step(const Files& files, const StepRecord& record, const Values& step) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : step)
    specs.push_back({.name = name, .shape = tensor.shape(), .dtype = tensor.dtype()});
  const std::string path = files.tensors(record.evaluation);
  write_safetensors(path, specs, [&](const TensorSpec& spec) { return step.at(spec.name); });
  const Json json = {{"evaluation", record.evaluation},
                     {"file_sha256", digest_file(path).sha256},
                     {"inputs", record.inputs},
                     {"tensors", record.tensors},
                     {"link", record.link}};
  write_file(files.record(record.evaluation), json.dump(2) + "\n");
}

SavedStep read_record(const Files& files, std::int64_t evaluation) {
  const std::string path = files.record(evaluation);
  const auto json = read_json(path);
  SavedStep saved;
  try {
    json.at("evaluation").get_to(saved.record.evaluation);
    json.at("file_sha256").get_to(saved.file_sha256);
    json.at("inputs").get_to(saved.record.inputs);
    json.at("tensors").get_to(saved.record.tensors);
    json.at("link").get_to(saved.record.link);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not the record of a step: {}", path, error.what());
  }
  return saved;
}

Values read_tensors(const Files& files, const SavedStep& saved) {
  const std::string path = files.tensors(saved.record.evaluation);
  const std::string found = digest_file(path).sha256;
  require(found == saved.file_sha256, "{}: SHA-256 {}, {} says {}", path, found,
          files.record(saved.record.evaluation), saved.file_sha256);
  const SafetensorsFile file(path);
  Values step;
  for (const char* name : kStepTensors) step[name] = file.tensor(name);
  return step;
}

// Steps from the first on; one that is there although an earlier one is not is an error.
std::int64_t count_saved(const Files& files, std::int64_t evaluations) {
  std::int64_t saved = 0;
  while (saved < evaluations && fs::exists(files.record(saved))) ++saved;
  for (std::int64_t later = saved + 1; later < evaluations; ++later)
    require(!fs::exists(files.record(later)), "{}: missing, although {} is there", files.record(saved),
            files.record(later));
  return saved;
}

void require_finite(const Values& velocity, std::int64_t evaluation) {
  for (const auto& [name, tensor] : velocity) {
    const auto values = tensor.values<float>();
    const auto bad = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
    require(bad == 0, "step {}: {} has {} elements that are not finite", evaluation, name, bad);
  }
}

// The run between its steps: the state, the chain, and what an evaluation is given.
class Walk {
 public:
  Walk(const GenerationContract& contract, const RunIdentity& identity)
      : contract_(contract),
        text_(text_condition(contract)),
        initial_(initial_state(contract, identity.seed, keyframe_latents(contract))),
        state_(initial_),
        link_(first_link(identity, initial_)) {}

  const GenerationState& initial() const { return initial_; }
  const std::vector<StepRecord>& records() const { return records_; }
  std::int64_t next() const { return std::int64_t(records_.size()); }
  Values inputs() const { return evaluation_inputs(contract_.layout(next()), state_, text_); }

  // The step that a velocity leads to.
  std::pair<StepRecord, Values> step(const Values& velocity) const {
    const Values step =
        step_tensors(velocity, euler_step(contract_, contract_.layout(next()), next(), state_, velocity));
    return {record_of(next(), sha256_of(inputs()), step, link_), step};
  }
  void advance(const StepRecord& record, const Values& step) {
    state_ = {step.at("video_rows").clone(), step.at("audio_rows").clone()};  // not a view of a file
    link_ = record.link;
    records_.push_back(record);
  }

 private:
  const GenerationContract& contract_;
  Tensor text_;
  GenerationState initial_, state_;
  std::string link_;
  std::vector<StepRecord> records_;
};

// Takes a saved step over when it is what follows from the steps before it and its own velocity.
void replay(const Files& files, Walk& walk) {
  const std::int64_t evaluation = walk.next();
  const SavedStep saved = read_record(files, evaluation);
  const std::string path = files.record(evaluation);
  require(saved.record.evaluation == evaluation, "{}: is of evaluation {}", path, saved.record.evaluation);
  const Values tensors = read_tensors(files, saved);
  const auto [record, step] = walk.step(velocity_of(tensors));
  require(record.inputs == saved.record.inputs, "{}: inputs {}, this run gives the evaluation {}", path,
          saved.record.inputs, record.inputs);
  for (const char* name : {"video_rows", "audio_rows"})
    require(identical(step.at(name), tensors.at(name)), "{}: {} do not follow from the velocity", path, name);
  require(record.link == saved.record.link, "{}: link {}, the chain of this run has {}", path,
          saved.record.link, record.link);
  require(record == saved.record, "{}: digests of tensors are not those of its file", path);
  walk.advance(record, step);
}

void verify_step(const Files& files, const Walk& walk, const Evaluation& evaluate) {
  const Values again = evaluate(walk.inputs());
  const Values saved = velocity_of(read_tensors(files, read_record(files, walk.next())));
  for (const auto& [name, tensor] : saved)
    require(identical(tensor, again.at(name)), "step {}: evaluated again, {} is not the saved one",
            walk.next(), name);
}

void log_seconds(const Files& files, std::int64_t evaluation, double seconds) {
  std::ofstream log(files.log(), std::ios::app);
  log << Json{{"evaluation", evaluation}, {"seconds", seconds}}.dump() << "\n";
}

void seal(const Files& files, const GenerationContract& contract, const RunIdentity& identity,
          const Walk& walk) {
  write_trajectory(
      files.trajectory(), contract, identity, walk.initial(), walk.records(),
      [&](std::int64_t evaluation) { return read_tensors(files, read_record(files, evaluation)); });
}

}  // namespace

std::string trajectory_of_run(const std::string& folder) { return Files{folder}.trajectory(); }

void begin_run(const std::string& folder, const GenerationContract& contract, const RunIdentity& identity,
               const std::string& build) {
  contract.require_seed(identity.seed);
  const Files files{folder};
  fs::create_directories(folder);
  const FolderLock lock(files);
  require(!fs::exists(files.run()), "{}: holds a run already; h3 generate resume goes on with it", folder);
  remove_half_written(folder);
  write_file(files.contract(), contract.text);
  write_run(files, {identity, build, {}});
}

GenerationContract contract_of_run(const std::string& folder) {
  record_of_run(folder);
  return read_contract(Files{folder}.contract());
}

RunRecord record_of_run(const std::string& folder) {
  const std::string path = Files{folder}.run();
  require(fs::exists(path), "{}: holds no run (no run.json)", folder);
  const auto json = read_json(path);
  RunRecord run;
  try {
    require(json.at("schema") == "h3.generation_run.v1", "{}: schema {}", path, json.at("schema").dump());
    run.identity = run_identity_from_json(json.at("identity"), path);
    json.at("build").get_to(run.build);
    json.at("builds").get_to(run.builds);
  } catch (const nlohmann::json::exception& error) {
    fail("{}: not the record of a run: {}", path, error.what());
  }
  return run;
}

RunOutcome continue_run(const std::string& folder, const RunIdentity& now, const std::string& build,
                        const Evaluation& evaluate, const RunLimits& limits, const RunProgress& progress) {
  const Files files{folder};
  const FolderLock lock(files);
  const RunRecord run = record_of_run(folder);
  const GenerationContract contract = read_contract(files.contract());
  const std::string changed = identity_difference(run.identity, now);
  require(changed.empty(), "{}: {}", folder, changed);
  require(contract.sha256 == run.identity.contract_sha256, "{}: SHA-256 {}, the run was begun with {}",
          files.contract(), contract.sha256, run.identity.contract_sha256);
  require(run.build == build, "{}: begun by another build ({}); h3 generate adopt takes it over", folder,
          run.build);
  remove_half_written(folder);

  RunOutcome outcome;
  Walk walk(contract, run.identity);
  const std::int64_t evaluations = contract.evaluations(), saved = count_saved(files, evaluations);
  for (; outcome.replayed < saved; ++outcome.replayed) {
    if (limits.verify_last_step && walk.next() == saved - 1) verify_step(files, walk, evaluate);
    replay(files, walk);
  }
  while (walk.next() < evaluations && outcome.evaluated != limits.evaluations) {
    if (progress) progress(walk.next(), fmt::format("evaluation {} of {}", walk.next() + 1, evaluations));
    const auto start = std::chrono::steady_clock::now();
    const Values velocity = evaluate(walk.inputs());
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    require_finite(velocity, walk.next());
    const auto [record, step] = walk.step(velocity);
    write_step(files, record, step);
    log_seconds(files, walk.next(), seconds);
    walk.advance(record, step);
    ++outcome.evaluated;
  }
  if (walk.next() < evaluations) return outcome;
  if (fs::exists(files.trajectory())) {
    const Trajectory sealed(files.trajectory());
    require(sealed.identity() == run.identity &&
                sealed.seal() == seal_of(walk.records().back().link, evaluations),
            "{}: is not the record of the steps beside it", files.trajectory());
  } else {
    seal(files, contract, run.identity, walk);
  }
  outcome.complete = true;
  return outcome;
}

void adopt_run(const std::string& folder, const RunIdentity& now, const std::string& build) {
  const Files files{folder};
  const RunRecord found = record_of_run(folder);
  const FolderLock lock(files);
  RunRecord run = found;
  const std::string changed = identity_difference(run.identity, now);
  require(changed.empty(), "{}: {}", folder, changed);
  if (run.build == build) return;
  run.builds.push_back(run.build);
  run.build = build;
  write_run(files, run);
}

}  // namespace h3
