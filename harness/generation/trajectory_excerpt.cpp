#include "harness/generation/trajectory_excerpt.h"

#include <algorithm>
#include <set>

#include "harness/compare/first_difference.h"
#include "model/digest.h"
#include "model/error.h"
#include "model/json.h"

namespace h3 {
namespace {

constexpr const char* kSchema = "h3.trajectory_excerpt.v1";

// Distinct, ascending; all of them where there are no more.
std::vector<std::int64_t> rows_drawn_by(const std::string& seal, const std::string& modality,
                                        std::int64_t rows, std::int64_t wanted) {
  std::set<std::int64_t> drawn;
  for (int draw = 0; std::int64_t(drawn.size()) < std::min(wanted, rows); ++draw) {
    const std::string hash = sha256_hex(fmt::format("{}\n{} {}\n", seal, modality, draw));
    drawn.insert(std::int64_t(std::stoull(hash.substr(0, 15), nullptr, 16) % std::uint64_t(rows)));
  }
  return {drawn.begin(), drawn.end()};
}

Tensor gathered(const Tensor& tensor, const std::vector<std::int64_t>& rows) {
  Tensor few(tensor.dtype(), {std::int64_t(rows.size()), tensor.cols()});
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::ranges::copy(tensor.row_range(rows[i], 1).byte_span(), few.row_range(std::int64_t(i), 1).bytes());
  return few;
}

struct Drawn {
  std::vector<std::int64_t> video, audio;

  Drawn(const std::string& seal, const GenerationState& initial, std::int64_t wanted)
      : video(rows_drawn_by(seal, "video", initial.video_rows.rows(), wanted)),
        audio(rows_drawn_by(seal, "audio", initial.audio_rows.rows(), wanted)) {}

  const std::vector<std::int64_t>& of(const std::string& tensor) const {
    return tensor.starts_with("video") ? video : audio;
  }
  GenerationState of(const GenerationState& state) const {
    return {gathered(state.video_rows, video), gathered(state.audio_rows, audio)};
  }
  // Conditions come first among the drawn rows, too.
  PackedLayout of(PackedLayout layout) const {
    const auto before = [](const std::vector<std::int64_t>& rows, std::int64_t limit) {
      return std::ranges::lower_bound(rows, limit) - rows.begin();
    };
    layout.condition_video_rows = before(video, layout.condition_video_rows);
    layout.condition_audio_rows = before(audio, layout.condition_audio_rows);
    return layout;
  }
};

// The part of a stacked tensor that belongs to an evaluation, as a matrix.
Tensor of_step(const Tensor& stacked, std::int64_t evaluation) {
  return stacked.row_range(evaluation, 1).reshaped({stacked.shape()[1], stacked.shape()[2]});
}

void require_same(const std::string& what, const Tensor& derived, const Tensor& recorded) {
  require(identical(derived, recorded), "{}: not what follows from the velocities", what);
}

}  // namespace

void write_excerpt(const std::string& path, const Trajectory& trajectory, std::int64_t drawn) {
  require(drawn > 0, "{}: {} rows asked for, expected 1 or more", path, drawn);
  const Drawn rows(trajectory.seal(), trajectory.initial(), drawn);
  const std::int64_t evaluations = trajectory.evaluations();
  Hdf5Writer file(path);
  file.attribute("/", "schema", kSchema);
  file.attribute("/", "contract", trajectory.contract().text);
  file.attribute("/", "identity", to_json(trajectory.identity()).dump());
  file.attribute("/", "seal", trajectory.seal());
  file.attribute("/", "drawn", drawn);
  Values stacked;
  for (std::int64_t evaluation = 0; evaluation < evaluations; ++evaluation) {
    const Values step = trajectory.step(evaluation);
    const StepRecord record = trajectory.record(evaluation);
    const std::string group = step_group(evaluation);
    file.group(group);
    file.attribute(group, "inputs", record.inputs);
    file.attribute(group, "link", record.link);
    for (const char* name : kStepTensors) {
      file.attribute(group, fmt::format("{}_sha256", name), record.tensors.at(name));
      const Tensor few = gathered(step.at(name), rows.of(name));
      Tensor& all = stacked[name];
      if (all.empty()) all = Tensor(few.dtype(), {evaluations, few.rows(), few.cols()});
      std::ranges::copy(few.byte_span(), all.row_range(evaluation, 1).bytes());
    }
  }
  for (const auto& [name, tensor] : stacked) file.write("rows/" + name, tensor);
  file.close();
}

bool is_excerpt(const std::string& path) {
  const Hdf5Reader file(path);
  return file.has_attribute("/", "schema") && file.string_attribute("/", "schema") == kSchema;
}

VerifiedExcerpt verify_excerpt(const std::string& path) {
  const Hdf5Reader file(path);
  const GenerationContract contract =
      parse_contract(file.string_attribute("/", "contract"), path + ": contract");
  const RunIdentity identity =
      run_identity_from_json(parse_json(file.string_attribute("/", "identity"), path), path);
  require(identity.contract_sha256 == contract.sha256, "{}: its identity names contract {}, it holds {}",
          path, identity.contract_sha256, contract.sha256);
  contract.require_seed(identity.seed);
  const std::string seal = file.string_attribute("/", "seal");
  const std::int64_t wanted = file.int_attribute("/", "drawn"), evaluations = contract.evaluations();
  require(wanted > 0, "{}: {} drawn rows, expected 1 or more", path, wanted);

  const GenerationState initial = initial_state(contract, identity.seed, keyframe_latents(contract));
  const Drawn rows(seal, initial, wanted);
  Values stacked;
  for (const char* name : kStepTensors) {
    const Tensor& of_modality =
        std::string(name).starts_with("video") ? initial.video_rows : initial.audio_rows;
    stacked[name] = file.read(fmt::format("rows/{}", name), DType::fp32,
                              {evaluations, std::int64_t(rows.of(name).size()), of_modality.cols()});
  }

  GenerationState state = rows.of(initial);
  std::string link = first_link(identity, initial);
  for (std::int64_t evaluation = 0; evaluation < evaluations; ++evaluation) {
    const std::string group = step_group(evaluation), where = path + ": " + group;
    const PackedLayout layout = contract.layout(evaluation);
    StepRecord record{evaluation, file.string_attribute(group, "inputs"), {}, ""};
    for (const char* name : kStepTensors)
      record.tensors[name] = file.string_attribute(group, fmt::format("{}_sha256", name));
    if (evaluation == 0)
      require(record.inputs == sha256_of(evaluation_inputs(layout, initial, text_condition(contract))),
              "{}: not what the contract gives the first evaluation", where);
    record.link = link_of(record, link);
    require(record.link == file.string_attribute(group, "link"),
            "{}: its link does not follow from its digests", where);
    link = record.link;

    Values step;
    for (const char* name : kStepTensors) step[name] = of_step(stacked.at(name), evaluation);
    state = euler_step(contract, rows.of(layout), evaluation, state, velocity_of(step));
    require_same(where + "/video_rows", state.video_rows, step.at("video_rows"));
    require_same(where + "/audio_rows", state.audio_rows, step.at("audio_rows"));
  }
  require(seal == seal_of(link, evaluations), "{}: broken seal", path);
  return {identity, evaluations, wanted};
}

}  // namespace h3
