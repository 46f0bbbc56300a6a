// The recorded answers themselves: what lies in fixtures/ is what the manifest says, and every dataset has
// its hash.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "harness/replay/golden_rows.h"
#include "model/digest.h"
#include "model/json.h"

namespace h3 {
namespace {

constexpr const char* kFiles[] = {"attention_backward", "block0",     "block0_backward", "device_functions",
                                  "generation_reduced", "golden",     "layouts",         "noise",
                                  "products",           "small_block"};

class Fixture : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return fixture_path(std::string(GetParam()) + ".h5").string(); }
};

TEST_P(Fixture, is_the_one_in_the_manifest) {
  const auto manifest = read_json(fixture_path("manifest.json").string());
  const auto& entry = manifest.at("files").at(std::string(GetParam()) + ".h5");
  const FileDigest digest = digest_file(path());
  EXPECT_EQ(entry.at("sha256"), digest.sha256) << "regenerate it, or accept it with: h3 fixtures manifest";
  EXPECT_EQ(entry.at("bytes"), digest.size);
  EXPECT_FALSE(entry.at("command").get<std::string>().empty());
}

TEST_P(Fixture, holds_the_data_that_was_hashed) {
  const Hdf5Reader file(path());
  const auto datasets = file.datasets();
  ASSERT_FALSE(datasets.empty());
  for (const auto& dataset : datasets) EXPECT_NO_THROW(file.verify(dataset)) << dataset;
}

TEST_P(Fixture, says_who_recorded_it) {
  EXPECT_FALSE(Hdf5Reader(path()).string_attribute("/", "exported_by").empty());
}

INSTANTIATE_TEST_SUITE_P(host, Fixture, testing::ValuesIn(kFiles),
                         [](const auto& info) { return std::string(info.param); });

class Manifest : public testing::TestWithParam<const char*> {};

TEST_P(Manifest, lists_every_file_and_no_other) {
  std::set<std::string> present, listed;
  for (const auto& entry : std::filesystem::directory_iterator(fixture_path("")))
    if (entry.path().extension() == ".h5" || entry.path().filename().string().starts_with("full_model_"))
      present.insert(entry.path().filename().string());
  const auto manifest = read_json(fixture_path("manifest.json").string());
  for (const auto& [name, entry] : manifest.at("files").items()) listed.insert(name);
  EXPECT_EQ(present, listed);
  std::uintmax_t bytes = 0;
  for (const auto& name : present) bytes += std::filesystem::file_size(fixture_path(name));
  EXPECT_LT(bytes, 20u << 20) << "fixtures travel with the repository";
}

INSTANTIATE_TEST_SUITE_P(host, Manifest, testing::Values("manifest"),
                         [](const auto& info) { return std::string(info.param); });

class GoldenRows : public testing::TestWithParam<const char*> {};

// Summed in one fixed FP64 order, so any machine gets the same bytes.
TEST_P(GoldenRows, regenerate_byte_for_byte) {
  for (const auto& difference : check_golden_rows(fixture_path("golden.h5").string(), GetParam()))
    ADD_FAILURE() << difference;
}

INSTANTIATE_TEST_SUITE_P(host, GoldenRows, testing::ValuesIn(kGoldenLayouts),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
