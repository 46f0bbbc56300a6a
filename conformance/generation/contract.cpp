// The contracts of the gate: what they fix, and what no contract may say.
#include <gtest/gtest.h>

#include "conformance/errors.h"
#include "conformance/generation/reduced.h"
#include "model/generation_contract.h"

namespace h3 {
namespace {

struct PinnedContract {
  const char* name;
  const char* file;
  std::int64_t rows, evaluations;
  const char* sha256;  // a bound or a seed that changes is a change of this line
};
void PrintTo(const PinnedContract& row, std::ostream* out) { *out << row.name; }

class Contract : public testing::TestWithParam<PinnedContract> {
 protected:
  const GenerationContract contract = read_contract(contract_file(GetParam().file));
};

TEST_P(Contract, is_the_pinned_one) { EXPECT_EQ(contract.sha256, GetParam().sha256); }

TEST_P(Contract, fixes_the_request) {
  EXPECT_EQ(contract.layout(0).rows(), GetParam().rows);
  EXPECT_EQ(contract.evaluations(), GetParam().evaluations);
  EXPECT_EQ(contract.seeds, (std::vector<std::uint64_t>{42, 43, 44}));
  EXPECT_EQ(contract.video_shift, 12);
  EXPECT_EQ(contract.audio_shift, 3);
  EXPECT_EQ(contract.keyframes, std::vector<Anchor>{Anchor::first});
  EXPECT_EQ(contract.bounds.psnr_db, 30);
  EXPECT_EQ(contract.bounds.ssim, 0.99);
  EXPECT_EQ(contract.bounds.temporal_rmse, 0.01);
  EXPECT_EQ(contract.bounds.audio_relative_l2, 0.05);
}

// Timesteps of the first evaluation merge (video and audio both begin at 0), later ones are three.
TEST_P(Contract, gives_every_evaluation_its_times) {
  const Schedule video = contract.video_schedule(), audio = contract.audio_schedule();
  for (std::int64_t e = 0; e < contract.evaluations(); ++e) {
    const auto i = std::size_t(e);
    const std::vector<float> expected =
        e == 0 ? std::vector<float>{0, 0.999f}
               : std::vector<float>{video.timesteps[i], audio.timesteps[i], 0.999f};
    EXPECT_EQ(contract.layout(e).timesteps, expected) << e;
  }
}

const PinnedContract kContracts[] = {
    {"full", "768p-124f", 38974, 49, "a1d8a6546dbdf2c2130543647dc143b337dd1d30b7d27f809fce98dffe38f2c9"},
    {"preflight_6", "preflight-6", 1086, 6,
     "24a47629938b3457b0442ae5524a91fcf24c9653fc05c083c7552255f891e20a"},
    {"preflight_1", "preflight-1", 1086, 1,
     "7d0ce467309185fdc891c420a10c0cf5643a1593ce361aab70289718056d03db"},
    {"reduced", "reduced", 50, 49, "f7957142c093777803a5cbede5b4b40ffc65e9abcb0443c794d961254de3a332"},
};
INSTANTIATE_TEST_SUITE_P(generation, Contract, testing::ValuesIn(kContracts),
                         [](const auto& info) { return info.param.name; });

// ---- bad contracts

struct BadContract {
  const char* name;
  const char* old;
  const char* replacement;
  const char* says;
};
void PrintTo(const BadContract& row, std::ostream* out) { *out << row.name; }

class ContractBadInput : public testing::TestWithParam<BadContract> {};

TEST_P(ContractBadInput, is_refused) {
  const std::string text =
      with(gate::read_file(contract_file("reduced")), GetParam().old, GetParam().replacement);
  EXPECT_TRUE(fails_naming([&] { parse_contract(text, "some.json"); }, {"some.json", GetParam().says}));
}

const BadContract kBad[] = {
    {"another_schema", "h3_generation_1", "h3_generation_2", "'contract' is \"h3_generation_2\""},
    {"unknown_config", "\"reduced\"", "\"large\"", "config 'large': expected released"},
    {"missing_field", "\"frames\": 5,", "", "'frames' is missing"},
    {"unknown_field", "\"frames\": 5,", "\"frames\": 5, \"guidance\": 3,", "'guidance' is no field"},
    {"field_twice", "\"frames\": 5,", "\"frames\": 5, \"frames\": 22,", "'frames' appears twice"},
    {"frames_beyond_63_bits", "\"frames\": 5", "\"frames\": 18446744073709551615",
     "'frames' is 18446744073709551615, expected an integer from"},
    {"frames_of_no_chunk", "\"frames\": 5", "\"frames\": 6", "6"},
    {"canvas_not_aligned", "\"height\": 64", "\"height\": 80", "80"},
    {"text_too_short", "\"text_rows\": 16", "\"text_rows\": 9", "1 keyframes take at least 10"},
    {"one_grid_point", "\"grid_points\": 50", "\"grid_points\": 1", "'grid_points' is 1"},
    {"grid_points_without_end", "\"grid_points\": 50", "\"grid_points\": 1000000000000", "from 2 to 1000"},
    {"frames_without_end", "\"frames\": 5", "\"frames\": 8589934597", "'frames' is 8589934597"},
    {"canvas_without_end", "\"height\": 64", "\"height\": 34359738368", "'height' is 34359738368"},
    {"text_without_end", "\"text_rows\": 16", "\"text_rows\": 4611686018427387904",
     "'text_rows' is 46116860"},
    {"keyframes_without_end", "[\"first\"]", "[\"first\", \"first\", \"first\"]", "a list of at most 2"},
    {"shift_zero", "\"video_shift\": 12", "\"video_shift\": 0", "'video_shift' is 0"},
    {"clean_conditions", "0.999", "1", "'conditioning' is 1, expected 0.999"},
    {"other_frame_rate", "\"frames_per_second\": 24", "\"frames_per_second\": 25", "expected 24"},
    {"other_sample_rate", "32000", "44100", "expected 32000"},
    {"keyframe_in_the_middle", "[\"first\"]", "[\"middle\"]", "expected first or last"},
    {"no_seed", "[42, 43, 44]", "[]", "'seeds' is []"},
    {"seed_twice", "[42, 43, 44]", "[42, 42, 44]", "seed 42 appears twice"},
    {"negative_seed", "[42, 43, 44]", "[-1]", "seed -1"},
    {"ssim_of_two", "\"ssim\": 0.99", "\"ssim\": 2", "bounds: 'ssim' is 2"},
    {"bound_missing", ", \"audio_relative_l2\": 0.05", "", "'audio_relative_l2' is missing"},
    {"unknown_bound", "\"ssim\": 0.99", "\"ssim\": 0.99, \"lpips\": 1", "'lpips' is no field"},
    {"layout_changed", "\"layout_sha256\": \"3", "\"layout_sha256\": \"4", "the request's layout has 3"},
    {"cut_off", "}\n}", "", "not valid JSON"},
};
INSTANTIATE_TEST_SUITE_P(generation, ContractBadInput, testing::ValuesIn(kBad),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
