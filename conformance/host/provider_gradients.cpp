// What fixtures/block0_backward.h5 is read for: a gradient is judged by bytes only where the provider repeats
// itself, and by the provider's own error everywhere. The record is made up here, and small.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "conformance/errors.h"
#include "conformance/scratch.h"
#include "fixtures/hdf5.h"
#include "harness/compare/compare.h"
#include "harness/compare/provider_record.h"
#include "model/digest.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

constexpr std::int64_t kRows = 5, kCols = 8, kHeadDim = 4;

Tensor made_up(const std::string& name, DType dtype = DType::bf16) {
  return synthetic_activation(7, name, {kRows, kCols}, dtype);
}

struct MadeUp {
  std::int64_t elements_moved = 0, rows_per_digest = 1;
  DType dtype = DType::bf16;
  double relative_l2 = 4e-3, max_abs = 0.25, absmax = 5;
  std::vector<std::int64_t> sampled = {0, kRows - 1};
  std::int64_t digests = -1;  // as many as fit
};

void write_gradient(Hdf5Writer& file, const std::string& name, const MadeUp& made) {
  const std::string path = "tiny/gradients/" + name;
  const Tensor tensor = made_up(name, made.dtype);
  file.group(path);
  file.attribute(path, "dtype", name_of(made.dtype));
  file.attribute(path, "height", kRows);
  file.attribute(path, "width", kCols);
  file.attribute(path, "elements_moved", made.elements_moved);
  file.attribute(path, "relative_l2_to_fp64", made.relative_l2);
  file.attribute(path, "max_abs_to_fp64", made.max_abs);
  file.attribute(path, "absmax_of_fp64", made.absmax);
  file.attribute(path, "max_ulp_to_fp64", std::int64_t(12));
  if (made.elements_moved > 0) return;
  file.attribute(path, "rows_per_digest", made.rows_per_digest);
  file.attribute(path, "sha256", sha256_hex(tensor.byte_span()));
  file.attribute(path, "xxh3_128", "not read by any judgement");
  std::vector<std::uint64_t> digests;
  for (std::int64_t row = 0; row < kRows; row += made.rows_per_digest)
    digests.push_back(
        xxh3_64(tensor.row_range(row, std::min(made.rows_per_digest, kRows - row)).byte_span()));
  if (made.digests >= 0) digests.resize(std::size_t(made.digests));
  file.write_vector(path + "/row_digests", digests);
  file.write_vector(path + "/sampled_rows", made.sampled);
  Tensor rows(made.dtype, {std::int64_t(made.sampled.size()), kCols});
  const std::size_t stride = kCols * size_of(made.dtype);
  for (std::size_t i = 0; i < made.sampled.size(); ++i)
    std::memcpy(rows.bytes() + i * stride,
                tensor.bytes() + std::size_t(std::min(made.sampled[i], kRows - 1)) * stride, stride);
  file.write(path + "/rows", rows);
}

class GradientRecord : public testing::TestWithParam<const char*> {
 protected:
  std::string write(const std::map<std::string, MadeUp>& gradients) {
    const std::string path = scratch_.path("backward.h5");
    Hdf5Writer file(path);
    file.attribute("/", "weights", "synthetic, seed 420");
    for (const char* fact : {"diffusers", "torch", "cudnn", "device"}) file.attribute("/", fact, "made up");
    file.group("tiny/inputs/output_gradient");
    file.attribute("tiny/inputs/output_gradient", "sha256",
                   sha256_hex(made_up("output_gradient").byte_span()));
    for (const auto& [name, made] : gradients) write_gradient(file, name, made);
    file.close();
    return path;
  }
  ProviderGradients load(const std::map<std::string, MadeUp>& gradients) {
    auto record = ProviderGradients::load(write(gradients), "tiny");
    require(record.has_value(), "the record made up here is not found");
    return *record;
  }
  static std::optional<ProviderVerdict> judge(const ProviderGradients& record, const std::string& name,
                                              const Tensor& candidate, std::int64_t head_dim = 0) {
    return record.judge(name, candidate, sha256_hex(candidate.byte_span()), head_dim);
  }

 private:
  Scratch scratch_;
};

TEST_P(GradientRecord, takes_the_recorded_bytes_for_equal) {
  const auto record = load({{"q_proj", {}}, {"temb", {.dtype = DType::fp32}}});
  EXPECT_EQ(record.all().size(), 2u);
  EXPECT_TRUE(judge(record, "q_proj", made_up("q_proj"))->equal);
  EXPECT_TRUE(judge(record, "temb", made_up("temb", DType::fp32))->equal);
}

TEST_P(GradientRecord, names_the_planted_element) {
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const auto record = load({{"q_proj", {.dtype = dtype}}});
    Tensor candidate = made_up("q_proj", dtype);
    candidate.bytes()[(4 * kCols + 6) * std::int64_t(size_of(dtype))] ^= std::byte{1};
    const auto verdict = judge(record, "q_proj", candidate, kHeadDim);
    ASSERT_TRUE(verdict && verdict->first);
    EXPECT_FALSE(verdict->equal);
    EXPECT_EQ(verdict->rows_differing, 1);
    EXPECT_EQ(verdict->elements_differing, 1);
    EXPECT_EQ(verdict->first->row, 4);
    EXPECT_EQ(verdict->first->head, 1);
    EXPECT_EQ(verdict->first->element, 6);
  }
}

TEST_P(GradientRecord, names_the_band_of_rows_where_no_row_is_kept) {
  const auto record = load({{"weight", {.rows_per_digest = 2}}});
  Tensor candidate = made_up("weight");
  candidate.bytes()[3 * kCols * 2] ^= std::byte{1};
  const auto verdict = judge(record, "weight", candidate);
  ASSERT_TRUE(verdict && verdict->first);
  EXPECT_EQ(verdict->rows_differing, 2) << "the band of rows 2 and 3";
  EXPECT_EQ(verdict->first->row, 2);
  EXPECT_EQ(verdict->first->element, -1);

  candidate = made_up("weight");
  candidate.bytes()[4 * kCols * 2] ^= std::byte{1};
  EXPECT_EQ(judge(record, "weight", candidate)->rows_differing, 1) << "the last band has one row";
}

TEST_P(GradientRecord, gives_no_verdict_where_the_provider_does_not_repeat) {
  const auto record = load({{"q_proj", {.elements_moved = 3}}});
  EXPECT_FALSE(judge(record, "q_proj", made_up("q_proj")));
  EXPECT_EQ(record.gradient("q_proj").elements_moved, 3);
}

TEST_P(GradientRecord, is_not_given_for_other_weights_or_another_output_gradient) {
  const auto record = load({{"q_proj", {}}});
  EXPECT_EQ(record.mismatch("synthetic, seed 420", {{"output_gradient", made_up("output_gradient")}}), "");
  EXPECT_NE(record.mismatch("synthetic, seed 1", {}), "");
  EXPECT_NE(record.mismatch("synthetic, seed 420", {{"output_gradient", made_up("another")}}), "");
}

TEST_P(GradientRecord, is_nothing_without_the_file_or_the_layout) {
  EXPECT_FALSE(ProviderGradients::load(testing::TempDir() + "no_such_file.h5", "tiny"));
  EXPECT_FALSE(ProviderGradients::load(write({{"q_proj", {}}}), "medium"));
}

TEST_P(GradientRecord, refuses_what_does_not_fit_together) {
  const auto record = load({{"q_proj", {}}});
  EXPECT_TRUE(fails_naming(
      [&] {
        judge(record, "q_proj", Tensor(DType::bf16, {kRows, kCols + 1}));
      },
      {"q_proj", "bf16 5x9", "recorded bf16 5x8"}));
  EXPECT_TRUE(fails_naming([&] { judge(record, "q_proj", made_up("q_proj", DType::fp32)); },
                           {"q_proj", "fp32 5x8", "recorded bf16 5x8"}));
  EXPECT_TRUE(fails_naming([&] { record.gradient("k_proj"); }, {"k_proj"}));
  EXPECT_TRUE(fails_naming(
      [&] {
        load({{"q_proj", {.digests = 4}}});
      },
      {"q_proj", "4 row digests", "5 rows"}));
  EXPECT_TRUE(fails_naming(
      [&] {
        load({{"q_proj", {.rows_per_digest = 2, .digests = 2}}});
      },
      {"q_proj", "2 row digests", "5 rows"}));
  EXPECT_TRUE(fails_naming(
      [&] {
        load({{"q_proj", {.sampled = {0, kRows}}}});
      },
      {"q_proj", "sampled row 5 of 5"}));
  EXPECT_TRUE(fails_naming([&] { load({{"q_proj", {.absmax = 0}}}); }, {"q_proj", "largest gradient is 0"}));
}

// ---- bounds: (recorded, an error just inside, one just outside)

// The candidate is the FP64 gradient with one element off.
Judgement judged(const ProviderGradient& recorded, double off) {
  Tensor golden(DType::fp32, {1, 4096}), candidate(DType::fp32, {1, 4096});
  for (std::int64_t i = 0; i < 4096; ++i)
    golden.data<float>()[i] = candidate.data<float>()[i] = i % 2 ? 5.0f : -5.0f;
  candidate.data<float>()[17] += float(off);
  return judge(recorded.bound(), compare(golden, candidate));
}

TEST_P(GradientRecord, bounds_the_largest_error_of_an_fp32_gradient) {
  const auto record = load({{"temb", {.dtype = DType::fp32, .max_abs = 0.25, .absmax = 5}}});
  const double limit = 1.5 * 0.25 + 5e-3 * 5;
  EXPECT_TRUE(judged(record.gradient("temb"), 0.999 * limit).accepted);
  EXPECT_FALSE(judged(record.gradient("temb"), 1.001 * limit).accepted);
}

TEST_P(GradientRecord, bounds_the_largest_error_of_a_bf16_gradient_in_ulps) {
  const auto record = load({{"weight", {.max_abs = 0.03125, .absmax = 5}}});
  const double limit = 0.03125 + 6 * 0.03125;  // above 4 a word is 2^-5 from the next
  EXPECT_TRUE(judged(record.gradient("weight"), 0.999 * limit).accepted);
  EXPECT_FALSE(judged(record.gradient("weight"), 1.001 * limit).accepted);
}

TEST_P(GradientRecord, bounds_the_relative_l2_error) {
  const auto record = load({{"weight", {.relative_l2 = 0, .max_abs = 5}}});
  const double limit = 5e-3 * 64 * 5;  // of a gradient of 4096 times 5
  EXPECT_TRUE(judged(record.gradient("weight"), 0.999 * limit).accepted);
  EXPECT_FALSE(judged(record.gradient("weight"), 1.001 * limit).accepted);
}

INSTANTIATE_TEST_SUITE_P(host, GradientRecord, testing::Values("made_up"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
