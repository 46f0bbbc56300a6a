#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "harness/compare/compare.h"
#include "harness/compare/first_difference.h"
#include "harness/compare/provider_record.h"
#include "harness/compare/tensor_changes.h"
#include "harness/power/controls/lists.h"
#include "harness/power/controls/narrow_model.h"
#include "harness/replay/replay.h"
#include "kernels/adaln_projection.h"
#include "kernels/adaln_row_gather.h"
#include "kernels/full_attention.h"
#include "kernels/ode_step.h"
#include "kernels/video_patch_pack_unpack.h"
#include "model/layout.h"
#include "model/scheduler.h"
#include "model/synthetic.h"
#include "model/temporary_folder.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

// ---- ways to look

// Made without the fault twice and with it once; compared byte by byte.
Control compared(const char* name, const char* perturbed, FaultClass fault, const char* where,
                 std::function<Tensor(bool perturbed)> make) {
  Control control{name, perturbed, fault, where};
  control.check = [=] {
    const Tensor expected = make(false), got = make(true);
    ControlResult result;
    const auto twin = first_difference(where, expected, make(false), "twin");
    result.twin_passed = !twin;
    if (twin) result.twin = twin->to_string();
    const auto drift = first_difference(where, expected, got, "twin");
    result.found = {classify(expected, got), where, drift ? drift->to_string() : "no word changed",
                    compare(expected, got).relative_l2};
    return result;
  };
  return control;
}

// A contract: the twin is taken, the control is an Error of one line.
Control refused(const char* name, const char* perturbed, const char* where,
                std::function<void(bool perturbed)> act) {
  Control control{name, perturbed, FaultClass::rejection, where};
  control.check = [=] {
    ControlResult result;
    try {
      act(false);
      result.twin_passed = true;
    } catch (const Error& error) {
      result.twin = error.what();
    }
    try {
      act(true);
      result.found = {FaultClass::none, "", "was taken"};
    } catch (const Error& error) {
      result.found = {FaultClass::rejection, where, error.what()};
    }
    return result;
  };
  return control;
}

// Judged by a bound on the relative L2 error, as every gate does it.
Control judged(const char* name, const char* perturbed, FaultClass fault,
               std::function<Tensor(bool perturbed)> make) {
  Control control{name, perturbed, fault, "compare"};
  control.check = [=] {
    const Bound bound = {.relative_l2 = 1e-2};
    const Tensor golden = synthetic_activation(kDefaultSeed, "control", {17, 64}, DType::fp32);
    ControlResult result;
    result.twin_passed = judge(bound, compare(golden, make(false))).accepted;
    const Tensor got = make(true);
    const Comparison found = compare(golden, got);
    const Judgement judgement = judge(bound, found);
    if (!judgement.accepted)
      result.found = {classify(golden, got), "compare", judgement.reason, found.relative_l2};
    return result;
  };
  return control;
}

// ---- layouts

struct LayoutChange {
  std::function<PackedLayout()> layout;
  std::function<void(PackedLayout&)> change;
};

std::function<Tensor(bool)> positions_of(LayoutChange with) {
  return [with](bool perturbed) {
    PackedLayout layout = with.layout();
    if (perturbed) with.change(layout);
    return layout.positions_tensor();
  };
}

constexpr std::int64_t kReferenceLatents = 12;

PackedLayout with_reference_audio() {
  const std::vector<std::int64_t> text(16, std::int64_t(Tag::text));
  const Reference reference[] = {{Reference::Kind::audio, {}, kReferenceLatents}};
  return build_ref2va(text, reference, {{2, 8, 8}, 8}, {0.25f, 0.5f});
}

void two_units_a_latent(PackedLayout& layout) {
  const std::int64_t first = layout.audio_indices[0];
  for (std::int64_t i = 0; i < layout.condition_audio_rows; ++i) {
    double& t = layout.positions[std::size_t(3 * layout.audio_indices[std::size_t(i)])];
    t += t - layout.positions[std::size_t(3 * first)];
  }
}

// Target frames of `small` at equal distances over the same span.
void frames_evenly_spaced(PackedLayout& layout) {
  const auto first = std::size_t(layout.condition_video_rows), last = layout.video_indices.size() - 1;
  const auto time = [&](std::size_t i) -> double& {
    return layout.positions[std::size_t(3 * layout.video_indices[i])];
  };
  const double start = time(first), span = time(last) - start;
  std::int64_t frames = 1;
  for (std::size_t i = first + 1; i <= last; ++i) frames += time(i) != time(i - 1);
  std::int64_t frame = 0;
  double before = start;
  for (std::size_t i = first; i <= last; ++i) {
    const double now = time(i);
    frame += now != before;
    before = now;
    time(i) = start + span * double(frame) / double(frames - 1);
  }
}

void anchors_exchanged(PackedLayout& layout) {
  const std::int64_t half = layout.condition_video_rows / 2;
  for (std::int64_t i = 0; i < half; ++i)
    for (int axis = 0; axis < 3; ++axis)
      std::swap(layout.positions[std::size_t(3 * layout.video_indices[std::size_t(i)] + axis)],
                layout.positions[std::size_t(3 * layout.video_indices[std::size_t(i + half)] + axis)]);
}

Tensor packed_patches(bool channel_last) {
  const Tensor latents = synthetic_activation(kDefaultSeed, "latents", {1, 24, 2, 8, 8}, DType::fp32);
  Tensor rows(DType::fp32, {1, 32, 96});
  kernels::video_patch_pack(latents, {}, rows);
  if (!channel_last) return rows;
  return spoil::columns(rows, [](std::int64_t c) { return c % 24 * 4 + c / 24; });
}

Tensor unpacked_patches(bool wrong_inverse) {
  const Tensor rows = packed_patches(wrong_inverse);
  Tensor latents(DType::fp32, {1, 24, 2, 8, 8});
  kernels::video_patch_unpack(rows, {}, latents);
  return latents;
}

// ---- schedules and the Euler step

Tensor as_tensor(std::span<const float> values, std::size_t count) {
  Tensor tensor(DType::fp32, {std::int64_t(count)});
  std::copy_n(values.begin(), count, tensor.data<float>());
  return tensor;
}

Tensor sigmas(std::int64_t grid_points, double shift) {
  return as_tensor(make_schedule(grid_points, shift).sigmas, 49);
}

constexpr std::int64_t kFewPoints = 9, kEvaluation = 4;  // large steps

Tensor one_value(float value) { return as_tensor(std::span(&value, 1), 1); }

// Audio rows after one evaluation on a grid; `sign` of the velocity.
Tensor stepped(const Schedule& schedule, std::int64_t evaluation, float sign = 1) {
  const Tensor x = synthetic_activation(kDefaultSeed, "latent", {16, 32}, DType::fp32),
               v = spoil::values(synthetic_activation(kDefaultSeed, "velocity", {16, 32}, DType::fp32),
                                 [sign](float value) { return sign * value; });
  Tensor next(DType::fp32, x.shape());
  kernels::ode_step(x, v, one_value(schedule.timesteps[evaluation]), one_value(schedule.sigmas[evaluation]),
                    one_value(schedule.sigmas[evaluation + 1]), next);
  return next;
}

Schedule audio_schedule(bool converted_twice) {
  Schedule schedule = make_schedule(kFewPoints, kAudioShift);
  if (!converted_twice) return schedule;
  for (float& sigma : schedule.sigmas)
    sigma = float(kAudioShift) * sigma / (1 + (float(kAudioShift) - 1) * sigma);
  for (std::size_t i = 0; i < schedule.timesteps.size(); ++i) schedule.timesteps[i] = 1 - schedule.sigmas[i];
  return schedule;
}

// x + (sigma - sigma') v, the blend taken apart.
Tensor reassociated(const Schedule& schedule, std::int64_t evaluation) {
  const Tensor x = synthetic_activation(kDefaultSeed, "latent", {16, 32}, DType::fp32),
               v = synthetic_activation(kDefaultSeed, "velocity", {16, 32}, DType::fp32);
  Tensor next(DType::fp32, x.shape());
  const float step = schedule.sigmas[evaluation] - schedule.sigmas[evaluation + 1];
  for (std::int64_t i = 0; i < x.elements(); ++i)
    next.data<float>()[i] = x.data<float>()[i] + step * v.data<float>()[i];
  return next;
}

// Initial latents of both streams from one generator: video first, or audio.
Tensor drawn_latents(bool audio_first) {
  constexpr std::int64_t kVideo = 216 * 96, kAudio = 16 * 32;
  const Tensor stream = synthetic_activation(kDefaultSeed, "noise", {kVideo + kAudio}, DType::fp32);
  Tensor latents(DType::fp32, stream.shape());  // video, then audio
  std::copy_n(stream.data<float>() + (audio_first ? kAudio : 0), kVideo, latents.data<float>());
  std::copy_n(stream.data<float>() + (audio_first ? 0 : kVideo), kAudio, latents.data<float>() + kVideo);
  return latents;
}

// ---- attention over two requests

Tensor first_request(bool leaking) {
  constexpr std::int64_t kFirst = 70, kSecond = 41, kHeads = 3, kDim = 128;
  const auto operand = [&](const char* name) {
    return synthetic_activation(kDefaultSeed, name, {kFirst + kSecond, kHeads, kDim}, DType::bf16);
  };
  const std::int64_t keys = leaking ? kFirst + kSecond : kFirst;
  Tensor o(DType::bf16, {kFirst, kHeads * kDim});
  kernels::full_attention(operand("q").row_range(0, kFirst), operand("k").row_range(0, keys),
                          operand("v").row_range(0, keys), o);
  return o;
}

// ---- contracts

void index_of(std::int64_t last_time, std::int64_t last_tag) {
  Tensor times(DType::i64, {3}), tags(DType::i64, {3}), index(DType::i64, {3});
  for (std::int64_t i = 0; i < 3; ++i) {
    times.data<std::int64_t>()[i] = i == 2 ? last_time : 0;
    tags.data<std::int64_t>()[i] = i == 2 ? last_tag : 0;
  }
  kernels::adaln_index(times, tags, 2, index);
}

void project_modulation(bool early_cast) {
  const NarrowModel& model = narrow_model();
  const Tensor temb =
      synthetic_activation(kDefaultSeed, "temb", {3, model.config.time_embed_dim}, DType::fp32);
  Tensor table(DType::bf16, {3 * kTags, model.config.modulation_dim()});
  kernels::adaln_projection(early_cast ? temb.to(DType::bf16) : temb,
                            model.weights->tensor("transformer_blocks.0.adaln_proj.linear.weight"),
                            model.weights->tensor("transformer_blocks.0.adaln_proj.linear.bias"), table);
}

// ---- comparisons

Tensor control_tensor() { return synthetic_activation(kDefaultSeed, "control", {17, 64}, DType::fp32); }

std::function<Tensor(bool)> spoiled(std::function<Tensor(const Tensor&)> change) {
  return [change](bool perturbed) { return perturbed ? change(control_tensor()) : control_tensor(); };
}

Tensor with_element(std::int64_t index, float value) {
  Tensor tensor = control_tensor().clone();
  tensor.data<float>()[index] = value;
  return tensor;
}

ControlResult identical_all_zero() {
  const Tensor zeros = spoil::values(control_tensor(), [](float) { return 0.0f; });
  const Comparison found = compare(zeros, zeros), twin = compare(control_tensor(), control_tensor());
  const Judgement judgement = judge({.relative_l2 = 1e-2}, found);
  ControlResult result;
  result.twin_passed = judge({.relative_l2 = 1e-2}, twin).accepted && twin.relative_l2 == 0;
  if (!judgement.accepted && found.relative_l2 == 0)  // no NaN, and still no evidence
    result.found = {FaultClass::vacuous, "compare", judgement.reason, found.relative_l2};
  return result;
}

ControlResult nothing_compared() {
  ControlResult result;
  result.twin_passed = compare(control_tensor(), control_tensor()).mismatch.empty();
  const Comparison found = compare(Tensor(DType::fp32, {0, 4}), Tensor(DType::fp32, {0, 4}));
  const Judgement judgement = judge({.relative_l2 = 1e-2}, found);
  if (!judgement.accepted && !ReplayReport{}.accepted())  // nor is a replay of no nodes
    result.found = {FaultClass::vacuous, "compare", judgement.reason};
  return result;
}

ControlResult negative_zero() {
  const Tensor zero = with_element(9, 0.0f), negative = with_element(9, -0.0f);
  const Comparison twin = compare(zero, zero), found = compare(zero, negative);
  ControlResult result;
  result.twin_passed = twin.same_bits();
  if (!found.same_bits() && found.negative_zero == 1 && found.differing_values == 0)
    result.found = {classify(zero, negative), "compare",
                    fmt::format("element {}: {} word differs in the sign of a zero", found.first_differing,
                                found.negative_zero),
                    found.relative_l2};
  return result;
}

// ---- fixtures

// A record as the candidate would write it: its bytes, but no provider that computed them.
void load_record(bool of_candidate) {
  if (!of_candidate) {
    require(ProviderRecord::load(fixture_path("block0.h5"), "tiny").has_value(), "block0.h5: no layout tiny");
    return;
  }
  const TemporaryFolder folder("h3_control");
  Hdf5Writer writer(folder.file("block0.h5"));
  writer.write("tiny/nodes/norm1/rows", synthetic_activation(1, "rows", {2, 8}, DType::bf16));
  writer.attribute("/", "weights", "synthetic, seed 420");
  writer.attribute("/", "exported_by", "the candidate");
  writer.close();
  ProviderRecord::load(folder.file("block0.h5"), "tiny");
}

void open_locked(bool locked) {
  const TemporaryFolder folder("h3_control");
  const std::string path = folder.file("locked.h5");
  Hdf5Writer writer(path);
  writer.write("x", control_tensor());
  writer.close();
  const int handle = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(handle >= 0, "{}: cannot open", path);
  if (locked) ::flock(handle, LOCK_EX);
  try {
    Hdf5Reader(path).read("x");
  } catch (...) {
    ::close(handle);
    throw;
  }
  ::close(handle);
}

void read_truncated(bool truncated) {
  const TemporaryFolder folder("h3_control");
  const std::string path = folder.file("cut.h5");
  Hdf5Writer writer(path);
  writer.write("x", synthetic_activation(1, "x", {64, 64}, DType::fp32));
  writer.close();
  const auto whole = fs::file_size(path);
  const auto readable = [&] {
    try {
      return Hdf5Reader(path).read("x").elements() > 0;
    } catch (const Error&) {
      return false;
    }
  };
  if (!truncated) {
    require(readable(), "{}: not readable", path);
    return;
  }
  std::string survived;
  for (const auto kept :
       {whole - 1, whole * 3 / 4, whole / 2, whole / 8, std::uintmax_t(96), std::uintmax_t(0)}) {
    fs::resize_file(path, kept);
    if (readable()) survived += fmt::format(" {}", kept);
  }
  if (survived.empty()) fail("{}: every one of 6 cuts is an error", "cut.h5");
}

void read_bf16(bool untagged) {
  const TemporaryFolder folder("h3_control");
  const std::string path = folder.file("words.h5");
  const Tensor words = synthetic_activation(1, "x", {8, 8}, DType::bf16);
  Hdf5Writer writer(path);
  if (untagged)
    writer.write_vector("x", std::span(reinterpret_cast<const std::uint16_t*>(words.bytes()), 64), {8, 8});
  else
    writer.write("x", words);
  writer.close();
  Hdf5Reader(path).read("x", DType::bf16, {8, 8});
}

void other_noise(bool drawn_elsewhere) {
  const auto record = ProviderRecord::load(fixture_path("block0.h5"), "tiny");
  require(record.has_value(), "block0.h5: no layout tiny");
  Tensor hidden = stand_in_hidden_states(named_layout("tiny"), Config{},
                                         kDefaultSeed + std::uint64_t(drawn_elsewhere), 0);
  const std::string mismatch = record->mismatch("synthetic, seed 420", {{"hidden_states", hidden}});
  require(mismatch.empty(), "block0.h5: {}", mismatch);
}

}  // namespace

std::vector<Control> controls_around_it() {
  using enum FaultClass;
  const Schedule video = make_schedule(kFewPoints, kVideoShift),
                 audio = make_schedule(kFewPoints, kAudioShift),
                 two_steps = make_schedule(3, kVideoShift);  // 1 - (1 - sigma) is sigma there
  return {
      // layouts
      compared("reference_audio_stride", "reference audio advances two units per latent", formula,
               "positions", positions_of({with_reference_audio, two_units_a_latent})),
      compared("latent_frames_evenly_spaced", "latent frames at equal distances", formula, "positions",
               positions_of({[] { return named_layout("small"); }, frames_evenly_spaced})),
      compared("keyframe_index_mismatch", "the two keyframes' positions exchanged", layout, "positions",
               positions_of({[] { return named_layout("small"); }, anchors_exchanged})),
      refused("canvas_multiple_16", "a canvas aligned to 16 pixels", "packing",
              [](bool wrong) {
                target_of(22, {wrong ? 240 : 224, 416});
              }),
      compared("patch_feature_order.rows", "features of a packed row channel-last", layout, "packing",
               packed_patches),
      compared("patch_feature_order.inverse", "only the unpacking is channel-last", layout, "unpacking",
               unpacked_patches),

      // scheduler, update, noise
      compared("schedule_off_by_one", "step count read as evaluations", formula, "scheduler",
               [](bool wrong) { return sigmas(kDefaultGridPoints + wrong, kVideoShift); }),
      refused("terminal_zero_dropped", "a list of sigmas that does not end at 0", "scheduler",
              [](bool wrong) {
                const double list[] = {1, 0.5, 0.25, 0};
                schedule_from_sigmas(std::span(list).first(wrong ? 3 : 4));
              }),
      compared("audio_on_video_schedule", "audio stepped with the video shift", formula, "scheduler",
               [](bool wrong) { return sigmas(kDefaultGridPoints, wrong ? kVideoShift : kAudioShift); }),
      compared("audio_conversion_twice", "audio schedule converted twice", formula, "euler_update",
               [](bool wrong) { return stepped(audio_schedule(wrong), kEvaluation); }),
      compared("velocity_sign_flipped", "the update subtracts the velocity", formula, "euler_update",
               [audio](bool wrong) { return stepped(audio, kEvaluation, wrong ? -1 : 1); }),
      compared("H13", "Euler step reassociated to x + (sigma - sigma') v", rounding, "euler_update",
               [video](bool wrong) {
                 return wrong ? reassociated(video, kEvaluation) : stepped(video, kEvaluation);
               }),
      compared(
          "H13.terminal", "the same at the terminal step, where it cannot show", no_effect, "euler_update",
          [two_steps](bool wrong) { return wrong ? reassociated(two_steps, 1) : stepped(two_steps, 1); }),
      compared("noise_draw_order", "audio noise drawn before video noise", layout, "packing", drawn_latents),
      refused("noise_drawn_on_device", "noise of another generator than the record's", "fixture_io",
              other_noise),

      // attention
      compared("requests_leak_in_pack", "two requests without a boundary", formula, "attention",
               first_request),

      // contracts
      refused("H2", "a fourth modality tag", "adaln_row_gather",
              [](bool wrong) { index_of(1, wrong ? 3 : 2); }),
      refused("H3", "a timestep index past T", "adaln_row_gather",
              [](bool wrong) { index_of(wrong ? 2 : 1, 2); }),
      refused("H7", "temb cast to BF16 before the projection", "adaln_projection", project_modulation),
      refused("H10", "timesteps scaled by 1000", "packing",
              [](bool wrong) {
                named_layout("tiny").set_times({wrong ? 250.0f : 0.25f, wrong ? 500.0f : 0.5f});
              }),

      // comparator
      judged("nan_in_candidate", "one element NaN", non_finite, spoiled([](const Tensor&) {
               return with_element(345, std::numeric_limits<float>::quiet_NaN());
             })),
      {"identical_all_zero", "both sides all zero", vacuous, "compare", {}, identical_all_zero},
      {"nothing_compared", "a candidate without nodes", vacuous, "compare", {}, nothing_compared},
      {"negative_zero", "the sign of an exact zero", rounding, "compare", {}, negative_zero},
      judged("metric_blind_spots.scaled", "a node times 1.5", formula,
             spoiled([](const Tensor& x) { return spoil::values(x, [](float v) { return 1.5f * v; }); })),
      judged("metric_blind_spots.shifted", "a node plus a constant", formula,
             spoiled([](const Tensor& x) { return spoil::values(x, [](float v) { return v + 0.125f; }); })),
      judged("metric_blind_spots.one_huge", "one huge element", formula,
             spoiled([](const Tensor&) { return with_element(77, 1e6f); })),
      judged("launch_never_happened", "success without a launch", memory,
             spoiled([](const Tensor& x) { return Tensor(x.dtype(), x.shape()); })),

      // fixtures
      refused("golden_from_candidate", "a record without a provider", "fixture_io", load_record),
      refused("fixture_lock_unavailable", "a fixture that somebody holds locked", "fixture_io", open_locked),
      refused("fixture_truncated", "a file cut at six offsets", "fixture_io", read_truncated),
      refused("bf16_container_type", "BF16 as untagged 16-bit integers", "fixture_io", read_bf16),
  };
}

}  // namespace h3
