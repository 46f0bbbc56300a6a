// A generation of the real diffusers on the reduced model (fixtures/generation_reduced.h5) beside ours. Its
// bytes are a CPU's, so that only its schedules, noise and steps can be equal to ours; velocities are held
// against the golden, and the results against how far the provider's own variants are apart.
#include <gtest/gtest.h>

#include <cmath>

#include "conformance/claims.h"
#include "conformance/generation/reduced.h"
#include "harness/compare/compare.h"
#include "harness/full_model/full_model.h"
#include "harness/full_model/full_model_bounds.h"
#include "harness/generation/stand_in_decoder.h"
#include "harness/power/power.h"

namespace h3 {
namespace {

constexpr std::uint64_t kSeed = 42;  // whose velocities are recorded
constexpr const char* kModalities[] = {"video", "audio"};

const GenerationContract& contract() {
  static const GenerationContract reduced = read_contract(contract_file("reduced"));
  return reduced;
}

const Hdf5Reader& recorded() {
  static const Hdf5Reader file(fixture_path("generation_reduced.h5").string());
  return file;
}

Tensor recorded_tensor(std::uint64_t seed, const std::string& name) {
  return recorded().read(fmt::format("seed_{}/{}", seed, name));
}

// The provider's members, evaluated at the default's states.
std::vector<std::string> provider_members() {
  return recorded().list(fmt::format("seed_{}/velocity", kSeed));
}

Values recorded_velocity(const std::string& member, std::int64_t evaluation) {
  Values velocity;
  for (const char* modality : kModalities) {
    const Tensor all = recorded_tensor(kSeed, fmt::format("velocity/{}/{}", member, modality));
    velocity[std::string(modality) + "_output"] =
        all.row_range(evaluation, 1).reshaped({all.shape()[1], all.shape()[2]});
  }
  return velocity;
}

// The states of the provider's default run of kSeed: before each evaluation, and after the last.

const std::vector<GenerationState>& provider_states() {
  static const std::vector<GenerationState> states = [] {
    require(recorded().string_attribute("/", "contract_sha256") == contract().sha256,
            "generation_reduced.h5 was recorded for another contract");
    std::vector<GenerationState> result = {initial_state(contract(), kSeed, keyframe_latents(contract()))};
    for (std::int64_t e = 0; e < contract().evaluations(); ++e)
      result.push_back(
          euler_step(contract(), contract().layout(e), e, result.back(), recorded_velocity("default", e)));
    return result;
  }();
  return states;
}

double distance(const Tensor& expected, const Tensor& actual) {
  return compare(expected, actual).relative_l2;
}

// ---- equal: what the steps begin with and how they are taken

class ProviderSteps : public testing::TestWithParam<const char*> {};

TEST_P(ProviderSteps, lead_to_its_final_rows) {
  const GenerationState& last = provider_states().back();
  EXPECT_TRUE(bitwise_equal(recorded_tensor(kSeed, "final_video_rows"), last.video_rows));
  EXPECT_TRUE(bitwise_equal(recorded_tensor(kSeed, "final_audio_rows"), last.audio_rows));
}

INSTANTIATE_TEST_SUITE_P(generation, ProviderSteps, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

// ---- teacher-forced: every evaluation from the provider's own state, so that no error is inherited

// What one output of one evaluation is in truth, and how far each member and ours are from that.
struct ForcedOutput {
  Tensor truth, ours;
  std::vector<double> members;
};

const std::vector<std::map<std::string, ForcedOutput>>& forced_outputs() {
  static const auto all = [] {
    const auto weights = open_weights("", contract().weights_seed, contract().config);
    const auto execution = golden_execution(false, contract().config);
    ModelForward golden(*execution, *weights);
    std::vector<std::map<std::string, ForcedOutput>> result;
    for (std::int64_t e = 0; e < contract().evaluations(); ++e) {
      const Values inputs = evaluation_inputs(contract().layout(e), provider_states()[std::size_t(e)],
                                              text_condition(contract()));
      const Values truth = golden.evaluate(widened(inputs)), ours = evaluate_reduced(inputs);
      auto& outputs = result.emplace_back();
      for (const char* output : kModelOutputs) outputs[output] = {truth.at(output), ours.at(output), {}};
      for (const std::string& member : provider_members())
        for (const auto& [output, velocity] : recorded_velocity(member, e))
          outputs[output].members.push_back(distance(truth.at(output), velocity));
    }
    return result;
  }();
  return all;
}

// The smallest tenth at which every member passes when it is held out and judged by the others, as the bounds
// of the whole model have it. Ours has no part in it.
double k_of_members() {
  double k = 1;
  for (const auto& outputs : forced_outputs())
    for (const auto& [name, output] : outputs)
      for (std::size_t held_out = 0; held_out < output.members.size(); ++held_out) {
        double others = 0;
        for (std::size_t m = 0; m < output.members.size(); ++m)
          if (m != held_out) others = std::max(others, output.members[m]);
        k = std::max(k, output.members[held_out] / others);
      }
  return std::ceil(k * 10) / 10;
}

class TeacherForced : public testing::TestWithParam<std::int64_t> {};

TEST_P(TeacherForced, is_as_near_to_the_golden_as_the_providers_members) {
  static const double k = k_of_members();
  RecordProperty("k", fmt::format("{:.1f}", k));
  for (const auto& [name, output] : forced_outputs()[std::size_t(GetParam())]) {
    Bound bound;
    bound.relative_l2 = k * *std::ranges::max_element(output.members) + rounding_floor(DType::fp32);
    EXPECT_TRUE(within(bound, output.truth, output.ours)) << name;
    power_of(bound, output.truth, DType::fp32);  // refuses zeros, a doubled and a permuted tensor, or throws
  }
}

INSTANTIATE_TEST_SUITE_P(generation, TeacherForced, testing::Range(std::int64_t(0), std::int64_t(49)),
                         [](const auto& info) { return fmt::format("step_{:02}", info.param); });

// ---- free-running

struct FreeRow {
  std::uint64_t seed;
};
void PrintTo(const FreeRow& row, std::ostream* out) { *out << "reduced_seed_" << row.seed; }

class FreeRunning : public testing::TestWithParam<FreeRow> {
 protected:
  static const GenerationState& ours(std::uint64_t seed) {
    static std::map<std::uint64_t, GenerationState> ends;
    if (const auto known = ends.find(seed); known != ends.end()) return known->second;
    GenerationState state = initial_state(contract(), seed, keyframe_latents(contract()));
    const Tensor text = text_condition(contract());
    for (std::int64_t e = 0; e < contract().evaluations(); ++e) {
      const PackedLayout layout = contract().layout(e);
      state =
          euler_step(contract(), layout, e, state, evaluate_reduced(evaluation_inputs(layout, state, text)));
    }
    return ends[seed] = state;
  }
  static GenerationState providers(std::uint64_t seed) {
    return {recorded_tensor(seed, "final_video_rows"), recorded_tensor(seed, "final_audio_rows")};
  }
};

// Three times as far as the farthest variant of the provider: a variant differs from the default in one place
// of its arithmetic, ours from a CPU's in all of them.
TEST_P(FreeRunning, ends_as_near_to_the_provider_as_its_variants) {
  const std::uint64_t seed = GetParam().seed;
  for (const std::string modality : kModalities) {
    double farthest = 0;
    const std::string growth = fmt::format("seed_{}/growth", seed);
    for (const std::string& variant : recorded().list(growth))
      farthest =
          std::max(farthest, recorded().read_vector<double>(growth + "/" + variant + "/" + modality).back());
    const bool video = modality == "video";
    const double apart = video ? distance(providers(seed).video_rows, ours(seed).video_rows)
                               : distance(providers(seed).audio_rows, ours(seed).audio_rows);
    RecordProperty(modality + "_measured", fmt::format("{:.4g}", apart));
    RecordProperty(modality + "_limit", fmt::format("{:.4g}", 3 * farthest));
    EXPECT_LE(apart, 3 * farthest) << modality;
  }
}

TEST_P(FreeRunning, decodes_within_the_contracts_bounds) {
  const std::uint64_t seed = GetParam().seed;
  const MediaComparison comparison =
      compare_media(decode_stand_in(contract(), providers(seed)), decode_stand_in(contract(), ours(seed)));
  for (const BoundVerdict& verdict : judge(contract().bounds, comparison)) {
    RecordProperty(verdict.metric, fmt::format("{:.4g}", verdict.measured));
    EXPECT_TRUE(verdict.accepted) << verdict.metric << " " << verdict.measured << ", bound " << verdict.limit;
  }
  // The bounds notice another seed.
  const std::uint64_t other = seed == 42 ? 43 : 42;
  const MediaComparison wrong =
      compare_media(decode_stand_in(contract(), providers(seed)), decode_stand_in(contract(), ours(other)));
  for (const BoundVerdict& verdict : judge(contract().bounds, wrong))
    EXPECT_FALSE(verdict.accepted) << verdict.metric;
}

INSTANTIATE_TEST_SUITE_P(generation, FreeRunning, testing::Values(FreeRow{42}, FreeRow{43}, FreeRow{44}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

// A difference of the size of a rounding is not damped: at the end it is a thousand times larger and more.
// That is why results are judged by distance, and bytes step by step.
class Horizon : public testing::TestWithParam<FreeRow> {};

TEST_P(Horizon, grows_from_roundings_to_a_visible_distance) {
  for (const char* modality : kModalities) {
    const auto curve =
        recorded().read_vector<double>(fmt::format("seed_{}/growth/perturbed/{}", GetParam().seed, modality));
    ASSERT_EQ(std::int64_t(curve.size()), contract().evaluations());
    RecordProperty(std::string(modality) + "_first", fmt::format("{:.3g}", curve.front()));
    RecordProperty(std::string(modality) + "_last", fmt::format("{:.3g}", curve.back()));
    EXPECT_GT(curve.back(), 0x1p-10);
    EXPECT_LT(curve.back(), 0.05);
  }
}

INSTANTIATE_TEST_SUITE_P(generation, Horizon, testing::Values(FreeRow{42}, FreeRow{43}, FreeRow{44}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace h3
