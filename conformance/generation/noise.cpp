// Noise as the real torch and diffusers drew it (fixtures/noise.h5).
#include <gtest/gtest.h>

#include "conformance/claims.h"
#include "conformance/generation/reduced.h"
#include "fixtures/hdf5.h"
#include "model/provider_normal.h"

namespace h3 {
namespace {

const Hdf5Reader& recorded() {
  static const Hdf5Reader file(fixture_path("noise.h5").string());
  return file;
}

struct DrawRow {
  const char* name;
  std::uint64_t seed;
};
void PrintTo(const DrawRow& row, std::ostream* out) { *out << row.name; }

class ProviderDraw : public testing::TestWithParam<DrawRow> {
 protected:
  // All draws of the seed, one after the other.
  static std::vector<float> drawn(std::uint64_t seed, const std::vector<std::int64_t>& sizes) {
    ProviderGenerator generator(seed);
    std::vector<float> all;
    for (const std::int64_t size : sizes) {
      const Tensor draw = generator.normal({size});
      all.insert(all.end(), draw.values<float>().begin(), draw.values<float>().end());
    }
    return all;
  }
  std::string group() const { return fmt::format("draws/seed_{}", GetParam().seed); }
  std::vector<std::int64_t> sizes() const { return recorded().ints_attribute(group(), "sizes"); }
};

TEST_P(ProviderDraw, matches_provider_fixture) {
  const std::vector<float> all = drawn(GetParam().seed, sizes());
  const std::vector<float> last = recorded().read_vector<float>(group() + "/last");
  for (std::size_t i = 0; i < last.size(); ++i) EXPECT_EQ(all[all.size() - last.size() + i], last[i]) << i;
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(all))), recorded().string_attribute(group(), "sha256"));
}

// Every draw moves the generator: no two seeds and no two orders of draws have the same numbers.
TEST_P(ProviderDraw, depends_on_seed_and_order) {
  auto turned = sizes();
  std::ranges::reverse(turned);
  const std::vector<float> all = drawn(GetParam().seed, sizes());
  EXPECT_NE(all, drawn(GetParam().seed + 1, sizes()));
  if (turned != sizes()) {
    EXPECT_NE(all, drawn(GetParam().seed, turned));
  }
}

const DrawRow kDraws[] = {
    {"one_block", 0},                            // 16
    {"below_sixteen_and_a_rest", 42},            // 1, 1, 16, 3, 5, 40
    {"second_of_a_pair_is_kept", 43},            // 15, 17, 31, 2, 1
    {"seed_beyond_32_bits", (1ull << 32) + 44},  // 100003, 7, 64
};
INSTANTIATE_TEST_SUITE_P(generation, ProviderDraw, testing::ValuesIn(kDraws),
                         [](const auto& info) { return info.param.name; });

// ---- what a request begins with

struct RequestRow {
  const char* name;
  const char* contract;
  std::uint64_t seed;
};
void PrintTo(const RequestRow& row, std::ostream* out) { *out << row.name; }

class ProviderRequest : public testing::TestWithParam<RequestRow> {
 protected:
  // The exporter's keyframe: ((37 i) mod 101 - 50) / 32, exact in FP32.
  static Tensor ramp(const Shape& shape) {
    Tensor tensor(DType::fp32, shape);
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.data<float>()[i] = float(i * 37 % 101 - 50) / 32;
    return tensor;
  }
};

TEST_P(ProviderRequest, matches_provider_fixture) {
  const GenerationContract contract = read_contract(contract_file(GetParam().contract));
  const LatentGrid grid = contract.target().video;
  const GenerationState state =
      initial_state(contract, GetParam().seed, {ramp({1, 24, 1, grid.height, grid.width})});
  const std::int64_t conditions = contract.layout(0).condition_video_rows;
  const std::map<std::string, Tensor> parts = {
      {"condition_rows", state.video_rows.row_range(0, conditions)},
      {"latents", state.video_rows.row_range(conditions, state.video_rows.rows() - conditions)},
      {"audio_latents", state.audio_rows}};
  for (const auto& [name, rows] : parts) {
    const std::string group =
        fmt::format("requests/{}/seed_{}/{}", GetParam().contract, GetParam().seed, name);
    const Tensor first = recorded().read(group + "/first");
    EXPECT_TRUE(bitwise_equal(first, rows.row_range(0, first.rows()))) << name;
    EXPECT_EQ(recorded().ints_attribute(group, "shape"), rows.shape()) << name;
    EXPECT_EQ(sha256_hex(rows.byte_span()), recorded().string_attribute(group, "sha256")) << name;
  }
}

const RequestRow kRequests[] = {
    {"full_s42", "768p-124f", 42},          {"full_s43", "768p-124f", 43},
    {"full_s44", "768p-124f", 44},          {"preflight_6_s42", "preflight-6", 42},
    {"preflight_6_s43", "preflight-6", 43}, {"preflight_6_s44", "preflight-6", 44},
    {"preflight_1_s42", "preflight-1", 42}, {"reduced_s42", "reduced", 42},
    {"reduced_s43", "reduced", 43},         {"reduced_s44", "reduced", 44},
};
INSTANTIATE_TEST_SUITE_P(generation, ProviderRequest, testing::ValuesIn(kRequests),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
