// The synthetic checkpoint: the same bytes everywhere and in any order, spread as its table says, hard places
// included.
#include "model/synthetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/digest.h"

namespace h3 {
namespace {

TensorSpec spec_named(const Config& config, const std::string& name) {
  for (const TensorSpec& spec : tensor_specs(config))
    if (spec.name == name) return spec;
  fail("no tensor '{}'", name);
}

std::string case_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return text;
}

// ---- bytes ----

struct PinnedCase {
  const char* tensor;
  std::uint64_t seed;
  std::int64_t first_row, rows;  // of the released model's tensor
  const char* sha256;
};
void PrintTo(const PinnedCase& c, std::ostream* out) { *out << c.tensor << " seed " << c.seed; }

struct SyntheticBytes : testing::TestWithParam<PinnedCase> {
  const Config config{};
  const TensorSpec spec = spec_named(config, GetParam().tensor);
  Tensor rows(int threads) const {
    return synthetic_rows(GetParam().seed, config, spec, GetParam().first_row, GetParam().rows, threads);
  }
  const SyntheticRule rule = synthetic_rule(GetParam().seed, config, spec);
  const std::int64_t row_elements = spec.elements() / spec.shape[0];
  const std::int64_t first = GetParam().first_row * row_elements;
};

TEST_P(SyntheticBytes, digest_is_pinned) { EXPECT_EQ(sha256_hex(rows(0).byte_span()), GetParam().sha256); }

TEST_P(SyntheticBytes, thread_count_changes_nothing) {
  const std::string digest = sha256_hex(rows(1).byte_span());
  for (const int threads : {2, 3, 7}) EXPECT_EQ(sha256_hex(rows(threads).byte_span()), digest) << threads;
}

TEST_P(SyntheticBytes, any_split_gives_the_same_bytes) {
  const Tensor whole = rows(0);
  const std::int64_t width = std::int64_t(size_of(spec.dtype));
  Tensor pieces(spec.dtype, whole.shape());
  std::int64_t piece = 1;
  for (std::int64_t at = 0; at < whole.elements(); at += piece, piece = piece * 3 % 5003 + 1) {
    const std::int64_t count = std::min(piece, whole.elements() - at);
    fill_range(rule, spec.dtype, first + at, count, pieces.bytes() + at * width);
    piece = count;
  }
  EXPECT_TRUE(std::ranges::equal(whole.byte_span(), pieces.byte_span()));
}

TEST_P(SyntheticBytes, bulk_equals_the_element_function) {
  const Tensor whole = rows(0);
  for (std::int64_t i = 0; i < whole.elements(); ++i) {
    const float value = rule.at(first + i), stored = spec.dtype == DType::bf16 ? round_bf16(value) : value;
    ASSERT_EQ(std::bit_cast<std::uint32_t>(whole.at(i)), std::bit_cast<std::uint32_t>(stored))
        << "element " << i;
  }
}

TEST_P(SyntheticBytes, another_seed_or_name_gives_other_bytes) {
  TensorSpec renamed = spec;
  renamed.name = "x." + spec.name;
  const std::string digest = sha256_hex(rows(0).byte_span());
  EXPECT_NE(
      sha256_hex(synthetic_rows(GetParam().seed + 1, config, spec, GetParam().first_row, GetParam().rows)
                     .byte_span()),
      digest);
  EXPECT_NE(sha256_hex(synthetic_rows(GetParam().seed, config, renamed, GetParam().first_row, GetParam().rows)
                           .byte_span()),
            digest);
}

TEST_P(SyntheticBytes, refuses_rows_that_are_not_there) {
  EXPECT_THROW(synthetic_rows(1, config, spec, spec.shape[0], 1), Error);
  EXPECT_THROW(synthetic_rows(1, config, spec, -1, 1), Error);
}

const PinnedCase kPinned[] = {
    // tensor                                         seed  rows         sha256
    {"transformer_blocks.0.attn.to_q.weight", 7, 0, 16,
     "a5d33b320e96f8789d46dc72f0730b3a19ca19f3862c615d18dd92a5ecd25c5f"},
    {"transformer_blocks.0.attn.to_q.weight", 11, 7152, 16,
     "e9713048dd973febbae074f0f70d76c240da7ea530c76b900ced915651f96ef8"},
    {"transformer_blocks.0.adaln_proj.linear.weight", 7, 5370, 16,
     "a5bb6eafbf78087756ef103bb853351fb0a019bba0cdae97a5450401e07d28f2"},
    {"transformer_blocks.0.adaln_proj.linear.bias", 7, 0, 96768,
     "a885b551ecfaba872da20b62bf1cad2888ff2068a5a2575bb98bdf5ec35cafde"},
    {"transformer_blocks.0.norm1.weight", 7, 0, 5376,
     "7b32b0e66e54f3c248e660fbb0f42589a8d9654f635740ada0a9aee9d815be8f"},
    {"transformer_blocks.47.attn.norm_q.weight", 7, 0, 128,
     "558748f42f20bf56d083af6a53f80342e599a80c49c78014fc597238affa9087"},
    {"transformer_blocks.20.attn.to_out.0.weight", 7, 250, 4,
     "87ee99c7a8924c91f2a1d4a7fd9b3976439dbbf65c99653104bdd4c1277654d1"},
    {"transformer_blocks.19.attn.to_out.0.weight", 7, 250, 4,
     "1ec0693ed12b76348bb35b76831bdc763574c9d9ae93e8d376c1aafc82112964"},
    {"proj_in.weight", 7, 0, 5376, "465ad908c92353e9d13a2bc1342e8b9f7eac7d40aabd2445650fda86d3f7b921"},
    {"time_embedder.linear_1.bias", 7, 0, 5376,
     "71ff240a0473ff7702484d36691da18dcfd7eb44a0b71f2f62242b3f257982f6"},
};
INSTANTIATE_TEST_SUITE_P(host, SyntheticBytes, testing::ValuesIn(kPinned), [](const auto& info) {
  return case_name(info.param.tensor) + "_s" + std::to_string(info.param.seed);
});

// ---- spread ----

struct SpreadCase {
  const char* tensor;
  std::int64_t first_row, rows;
  double mean, std;
  bool planted;
};
void PrintTo(const SpreadCase& c, std::ostream* out) { *out << c.tensor; }

struct SyntheticSpread : testing::TestWithParam<SpreadCase> {
  const Config config{};
  const TensorSpec spec = spec_named(config, GetParam().tensor);
  const Tensor values = synthetic_rows(7, config, spec, GetParam().first_row, GetParam().rows);
  const double count = double(values.elements());
};

TEST_P(SyntheticSpread, mean_and_std_are_as_stated) {
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < values.elements(); ++i) {
    sum += values.at(i);
    squares += double(values.at(i)) * values.at(i);
  }
  const double mean = sum / count, std = std::sqrt(squares / count - mean * mean);
  EXPECT_NEAR(mean, GetParam().mean, 6 * GetParam().std / std::sqrt(count));
  EXPECT_NEAR(std / GetParam().std, 1, 6 / std::sqrt(count));
}

TEST_P(SyntheticSpread, planted_values_have_their_share) {
  const float std = synthetic_rule(7, config, spec).std;
  std::int64_t zeros = 0, negative_zeros = 0;
  for (std::int64_t i = 0; i < values.elements(); ++i) {
    const float value = values.at(i);
    ASSERT_TRUE(std::isfinite(value));
    if (value == 0) ++(std::signbit(value) ? negative_zeros : zeros);
    ASSERT_LE(std::abs(value - GetParam().mean), 16 * std);
  }
  const double expected = GetParam().planted ? count / kPlantGroup / 4 : 0;
  EXPECT_NEAR(double(zeros), expected, 6 * std::sqrt(expected) + 1e-4 * count);
  EXPECT_NEAR(double(negative_zeros), expected, 6 * std::sqrt(expected));
  EXPECT_EQ(negative_zeros > 0, GetParam().planted);
}

const SpreadCase kSpreads[] = {
    // tensor                                             rows           mean  std
    {"transformer_blocks.3.attn.to_v.weight", 0, 128, 0, 1 / std::sqrt(5376.), true},
    {"transformer_blocks.3.ff.net.0.proj.weight", 28000, 128, 0, 1 / std::sqrt(5376.), true},
    {"transformer_blocks.3.ff.net.2.weight", 0, 64, 0, 1 / std::sqrt(14336.), true},
    {"transformer_blocks.3.adaln_proj.linear.weight", 0, 128, 0, 0.5 / std::sqrt(2688.), true},
    {"context_embedder.weight", 0, 128, 0, 1 / std::sqrt(5120.), true},
    {"time_embedder.linear_1.weight", 0, 2048, 0, 2 / std::sqrt(256.), true},
    {"proj_out.weight", 0, 96, 0, 1 / std::sqrt(5376.), true},
    {"norm_out.norm.weight", 0, 5376, 1, 0.2, false},
    {"norm_out.linear.bias", 0, 10752, 0, 0.2, false},
    {"context_embedder.bias", 0, 5376, 0, 0.1, false},
    {"transformer_blocks.3.attn.norm_k.weight", 0, 128, 1, 0.3, false},
    {"transformer_blocks.47.attn.norm_k.weight", 0, 128, 32, 9.6, false},
    {"transformer_blocks.3.adaln_proj.linear.bias", 0, 5376, 0, 0.2, false},
    {"transformer_blocks.3.adaln_proj.linear.bias", 2 * 5376, 5376, 0.7, 0.2, false},
    {"transformer_blocks.3.adaln_proj.linear.bias", 11 * 5376, 5376, 0.7, 0.2, false},
};
INSTANTIATE_TEST_SUITE_P(host, SyntheticSpread, testing::ValuesIn(kSpreads), [](const auto& info) {
  return case_name(info.param.tensor) + "_r" + std::to_string(info.param.first_row);
});

// ---- hard places ----

struct OutlierCase {
  const char* tensor;
  std::int64_t inner;  // elements per channel
  std::vector<std::int64_t> channels;
};
void PrintTo(const OutlierCase& c, std::ostream* out) { *out << c.tensor; }

struct SyntheticOutliers : testing::TestWithParam<OutlierCase> {};

TEST_P(SyntheticOutliers, exactly_these_channels_stand_out) {
  const OutlierCase& c = GetParam();
  const Config config{};
  const TensorSpec spec = spec_named(config, c.tensor);
  const SyntheticRule rule = synthetic_rule(7, config, spec);
  SyntheticRule plain = rule;
  plain.pattern = Pattern::even;
  for (std::int64_t channel = 0; channel < spec.shape[0]; ++channel) {
    const bool outlier = std::ranges::count(c.channels, channel) == 1;
    EXPECT_EQ(rule.affine(channel * c.inner).scale, plain.affine(0).scale * (outlier ? 16 : 1)) << channel;
    EXPECT_EQ(rule.affine(channel * c.inner + c.inner - 1).mean, plain.affine(0).mean * (outlier ? 16 : 1))
        << channel;
  }
}

const std::vector<std::int64_t> kMassive = {252, 1428, 3360, 4620}, kLoud = {756, 1932, 2856, 4116};
const OutlierCase kOutlierCases[] = {
    {"transformer_blocks.0.norm1.weight", 1, kLoud},
    {"transformer_blocks.49.norm2.weight", 1, kLoud},
    {"transformer_blocks.19.ff.net.2.weight", 14336, {}},
    {"transformer_blocks.20.ff.net.2.weight", 14336, kMassive},
    {"transformer_blocks.49.attn.to_out.0.weight", 7168, kMassive},
    {"transformer_blocks.49.attn.to_q.weight", 5376, {}},
};
INSTANTIATE_TEST_SUITE_P(host, SyntheticOutliers, testing::ValuesIn(kOutlierCases),
                         [](const auto& info) { return case_name(info.param.tensor); });

struct SmallScaleCase {
  const char* name;
  std::int64_t part;  // of the six
  bool has_small;
};
void PrintTo(const SmallScaleCase& c, std::ostream* out) { *out << c.name; }

struct SyntheticModulation : testing::TestWithParam<SmallScaleCase> {};

// Adding one to a scale near 1/256 in BF16 changes it a lot, which is where a fused kernel differs from the
// provider.
TEST_P(SyntheticModulation, some_scales_stay_near_one_256th) {
  const Config config{};
  const TensorSpec weight = spec_named(config, "transformer_blocks.5.adaln_proj.linear.weight");
  const TensorSpec bias = spec_named(config, "transformer_blocks.5.adaln_proj.linear.bias");
  const Tensor biases = synthetic(7, config, bias);
  for (const std::int64_t tag : {0, 1, 2}) {
    int small = 0;
    for (std::int64_t channel = 0; channel < config.hidden_size; ++channel) {
      const std::int64_t row = (tag * 6 + GetParam().part) * config.hidden_size + channel;
      const bool quiet_row = synthetic_rule(7, config, weight).affine(row * 2688).scale < 1e-8f;
      if (!quiet_row) continue;
      ++small;
      EXPECT_NEAR(std::abs(biases.at(row)), 0x1p-8f, 6 * 0.2f / 128);
    }
    EXPECT_EQ(small, GetParam().has_small ? 84 : 0) << "tag " << tag;
  }
}

const SmallScaleCase kParts[] = {{"shift_msa", 0, false}, {"scale_msa", 1, true}, {"gate_msa", 2, false},
                                 {"shift_mlp", 3, false}, {"scale_mlp", 4, true}, {"gate_mlp", 5, false}};
INSTANTIATE_TEST_SUITE_P(host, SyntheticModulation, testing::ValuesIn(kParts),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- activations ----

struct ActivationCase {
  DType dtype;
  bool massive;
  const char* sha256;
};
void PrintTo(const ActivationCase& c, std::ostream* out) {
  *out << name_of(c.dtype) << (c.massive ? " massive" : "");
}

struct SyntheticActivation : testing::TestWithParam<ActivationCase> {
  const Tensor values =
      synthetic_activation(7, "block0.hidden_states", {264, 5376}, GetParam().dtype, 1, GetParam().massive);
};

TEST_P(SyntheticActivation, digest_is_pinned) {
  EXPECT_EQ(sha256_hex(values.byte_span()), GetParam().sha256);
}

TEST_P(SyntheticActivation, only_massive_channels_are_large) {
  for (std::int64_t channel = 0; channel < 5376; ++channel) {
    double squares = 0;
    for (std::int64_t row = 0; row < 264; ++row) squares += std::pow(values.at(row * 5376 + channel), 2);
    const bool massive = GetParam().massive && std::ranges::count(kMassive, channel);
    const double size = std::sqrt(squares / 264) / (massive ? 32 : 1);
    EXPECT_GT(size, 0.75) << "channel " << channel;
    EXPECT_LT(size, 2) << "channel " << channel;  // a planted 16 among 264 values
  }
}

const ActivationCase kActivations[] = {
    {DType::bf16, false, "e38a236b7ffa6b7b7893e92ed69816feb2e2e3e3829fc8cb9fd86e072b960f7d"},
    {DType::bf16, true, "16757ae0edf991481428639ece2173d425ae0ecc765a9258065b18a44026f018"},
    {DType::fp32, true, "7dd5f6c93dad19c32d769fc0a8eefb563d8b9c7c7847358f1389e30d42ec7dfa"},
    {DType::fp16, true, "c8b6b3b3f21cfc1f2f37457577e92dc16c83c3d72649a37a3100f6a4b0ab9f1c"},
    {DType::fp64, false, "9851fdc3d0dfb2dd58424de8f93daead0d08e3cfda26016467377bbc217c3812"}};
INSTANTIATE_TEST_SUITE_P(host, SyntheticActivation, testing::ValuesIn(kActivations), [](const auto& info) {
  return std::string(name_of(info.param.dtype)) + (info.param.massive ? "_massive" : "_even");
});

}  // namespace
}  // namespace h3
