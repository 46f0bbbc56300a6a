// Weights by name, the check of a checkpoint folder, and the digests that evidence names weights by.
#include "model/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "conformance/scratch.h"
#include "model/config_json.h"
#include "model/digest.h"
#include "model/json.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

Config small_config() {
  Config c;
  c.num_attention_heads = 2, c.attention_head_dim = 32, c.hidden_size = 64, c.num_layers = 2, c.ffn_dim = 128;
  c.text_dim = 48, c.freq_dim = 16, c.time_embed_hidden_dim = 64, c.time_embed_dim = 32, c.rope_freq_dim = 4;
  return c;
}

constexpr std::uint64_t kShardBytes = 200'000;

// A complete small checkpoint. Written once, copied for each case: writing waits for the disk, copying does
// not.
class SmallCheckpoint {
 public:
  SmallCheckpoint() { fs::copy(written().folder(), folder(), fs::copy_options::recursive); }
  std::string folder() const { return scratch_.folder(); }
  std::string path(const std::string& name) const { return scratch_.path(name); }
  std::string shard(int number) const {
    return path(fmt::format("diffusion_pytorch_model-{:05}-of-00004.safetensors", number));
  }
  void edit_json(const std::string& name, const std::function<void(nlohmann::json&)>& change) const {
    nlohmann::json json = read_json(path(name));
    change(json);
    std::ofstream(path(name)) << json.dump();
  }
  // Writes a shard anew, with some of its specs changed.
  void rewrite_shard(int number, const std::function<void(std::vector<TensorSpec>&)>& change) const {
    std::vector<TensorSpec> specs;
    const SafetensorsFile file(shard(number));
    for (const StoredTensor& stored : file.tensors())
      specs.push_back({stored.name, stored.shape, stored.dtype});
    change(specs);
    write_safetensors(shard(number), specs,
                      [](const TensorSpec& spec) { return Tensor(spec.dtype, spec.shape); });
  }

 private:
  static const Scratch& written() {
    static const std::unique_ptr<Scratch> scratch = [] {
      auto fresh = std::make_unique<Scratch>();
      write_synthetic_checkpoint(fresh->folder(), 7, small_config(), tensor_specs(small_config()),
                                 kShardBytes);
      return fresh;
    }();
    return *scratch;
  }
  Scratch scratch_;
};

// ---- the folder check ----

struct DamageCase {
  const char* name;
  std::function<void(const SmallCheckpoint&)> damage;
  const char* says;  // a part of one of the problems
};
void PrintTo(const DamageCase& c, std::ostream* out) { *out << c.name; }

struct CheckpointCheck : testing::TestWithParam<DamageCase> {};

TEST_P(CheckpointCheck, names_the_damage) {
  const SmallCheckpoint checkpoint;
  ASSERT_EQ(check_folder(checkpoint.folder(), small_config()).verdict, Verdict::other_weights);
  GetParam().damage(checkpoint);
  const CheckpointReport report = check_folder(checkpoint.folder(), small_config());
  EXPECT_EQ(report.verdict, Verdict::broken);
  const bool named = std::ranges::any_of(report.problems, [](const std::string& problem) {
    return problem.find(GetParam().says) != std::string::npos;
  });
  EXPECT_TRUE(named) << fmt::format("{}", fmt::join(report.problems, "\n"));
  EXPECT_LE(report.problems.size(), 4u) << fmt::format("{}", fmt::join(report.problems, "\n"));
}

const std::string kNorm = "transformer_blocks.1.norm1.weight";

const DamageCase kDamages[] = {
    {"config_missing", [](auto& c) { fs::remove(c.path("config.json")); }, "config.json: cannot open"},
    {"config_not_json", [](auto& c) { std::ofstream(c.path("config.json")) << "{"; }, "not valid JSON"},
    {"config_other_width",
     [](auto& c) { c.edit_json("config.json", [](auto& j) { j["hidden_size"] = 65; }); },
     "'hidden_size' is 65, expected 64"},
    {"config_other_epsilon",
     [](auto& c) { c.edit_json("config.json", [](auto& j) { j["norm_eps"] = 1e-6; }); },
     "'norm_eps' is 1e-06, expected 1e-05"},
    {"config_other_patch",
     [](auto& c) { c.edit_json("config.json", [](auto& j) {
                     j["patch_size"] = {1, 2, 1};
                   }); },
     "'patch_size' is [1,2,1], expected [1,2,2]"},
    {"config_lacks_a_field",
     [](auto& c) { c.edit_json("config.json", [](auto& j) { j.erase("rope_theta"); }); },
     "'rope_theta' is missing"},
    {"config_has_a_field_more", [](auto& c) { c.edit_json("config.json", [](auto& j) { j["extra"] = 1; }); },
     "'extra' is not a field"},
    {"config_other_class",
     [](auto& c) { c.edit_json("config.json", [](auto& j) { j["_class_name"] = "Other"; }); },
     "'_class_name' is \"Other\""},
    {"index_missing", [](auto& c) { fs::remove(c.path(kIndexName)); }, "index.json: cannot open"},
    {"shard_missing", [](auto& c) { fs::remove(c.shard(2)); }, "00002-of-00004.safetensors is missing"},
    {"shard_cut", [](auto& c) { fs::resize_file(c.shard(2), fs::file_size(c.shard(2)) - 1); },
     "past the file"},
    {"shard_empty", [](auto& c) { fs::resize_file(c.shard(3), 0); }, "too short"},
    {"tensor_missing",
     [](auto& c) {
       c.rewrite_shard(3, [](auto& specs) { std::erase_if(specs, [](auto& s) { return s.name == kNorm; }); });
     },
     "'transformer_blocks.1.norm1.weight' is missing"},
    {"tensor_missing_from_the_index",
     [](auto& c) { c.edit_json(kIndexName, [](auto& j) { j["weight_map"].erase(kNorm); }); },
     "'transformer_blocks.1.norm1.weight' is not in the index"},
    {"tensor_extra",
     [](auto& c) { c.rewrite_shard(3, [](auto& specs) {
                     specs.push_back({"rope.inv_freq", {16}});
                   }); },
     "'rope.inv_freq' is not part of the model"},
    {"tensor_of_other_shape",
     [](auto& c) {
       c.rewrite_shard(3, [](auto& specs) {
         std::ranges::find(specs, kNorm, &TensorSpec::name)->shape = {8, 8};
       });
     },
     "'transformer_blocks.1.norm1.weight' is bf16 8x8, expected bf16 64"},
    {"tensor_of_other_dtype",
     [](auto& c) {
       c.rewrite_shard(
           3, [](auto& specs) { std::ranges::find(specs, kNorm, &TensorSpec::name)->dtype = DType::fp32; });
     },
     "'transformer_blocks.1.norm1.weight' is fp32 64, expected bf16 64"},
    {"index_names_another_shard",
     [](auto& c) {
       c.edit_json(kIndexName,
                   [](auto& j) { std::swap(j["weight_map"][kNorm], j["weight_map"]["proj_in.weight"]); });
     },
     "'transformer_blocks.1.norm1.weight' lies here, the index puts it in"},
    {"total_size_wrong",
     [](auto& c) { c.edit_json(kIndexName, [](auto& j) { j["metadata"]["total_size"] = 1; }); },
     "total_size is 1, the shards hold"},
};
INSTANTIATE_TEST_SUITE_P(host, CheckpointCheck, testing::ValuesIn(kDamages),
                         [](const auto& info) { return std::string(info.param.name); });

struct WholeCase {
  const char* name;
  bool hash;
};
void PrintTo(const WholeCase& c, std::ostream* out) { *out << c.name; }

struct CheckpointReading : testing::TestWithParam<WholeCase> {
  const SmallCheckpoint checkpoint;
};

TEST_P(CheckpointReading, counts_and_digests_a_whole_checkpoint) {
  std::int64_t hashed = 0;
  const CheckpointReport report = check_folder(checkpoint.folder(), small_config(), GetParam().hash,
                                               [&](std::int64_t bytes) { hashed += bytes; });
  EXPECT_EQ(report.verdict, Verdict::other_weights);
  EXPECT_EQ(report.tensors, 62);
  EXPECT_EQ(report.size_bytes, fingerprint(small_config()).size_bytes);
  ASSERT_EQ(report.files.size(), 6u);
  for (std::size_t i = 0; i < report.files.size(); ++i)
    EXPECT_EQ(report.files[i].sha256.empty(), i >= 2 && !GetParam().hash) << report.files[i].name;
  EXPECT_EQ(hashed > report.size_bytes, GetParam().hash);
}

TEST_P(CheckpointReading, a_single_file_needs_no_index) {
  const fs::path folder = fs::path(checkpoint.folder()) / "single";
  fs::create_directory(folder);
  fs::copy(checkpoint.path("config.json"), folder);
  const SyntheticWeights weights(7, small_config());
  write_safetensors((folder / kSingleName).string(), tensor_specs(small_config()),
                    [&](const TensorSpec& spec) { return weights.tensor(spec.name); });
  EXPECT_EQ(check_folder(folder.string(), small_config(), GetParam().hash).verdict, Verdict::other_weights);
  const auto specs = tensor_specs(small_config());
  EXPECT_EQ(root_sha256(FolderWeights(folder.string()), specs), root_sha256(weights, specs));
}

TEST_P(CheckpointReading, another_model_is_not_the_released_one) {
  const CheckpointReport report = check_folder(checkpoint.folder(), Config{}, GetParam().hash);
  EXPECT_EQ(report.verdict, Verdict::broken);
  EXPECT_GT(report.problems.size(), 500u);  // every missing block, every shape
}

TEST_P(CheckpointReading, a_folder_that_is_not_there_is_a_report) {
  EXPECT_EQ(check_folder(checkpoint.folder() + "/nowhere", Config{}, GetParam().hash).verdict,
            Verdict::broken);
}

const WholeCase kWholes[] = {{"quick", false}, {"hashed", true}};
INSTANTIATE_TEST_SUITE_P(host, CheckpointReading, testing::ValuesIn(kWholes),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- weights by name ----

struct WeightsCase {
  const char* name;
  std::uint64_t seed;
  const char* block1_sha256;
};
void PrintTo(const WeightsCase& c, std::ostream* out) { *out << c.name; }

struct WeightsByName : testing::TestWithParam<WeightsCase> {
  const SyntheticWeights synthetic{GetParam().seed, small_config()};
  const std::vector<TensorSpec> specs = tensor_specs(small_config());
};

TEST_P(WeightsByName, block_digest_is_pinned) {
  EXPECT_EQ(root_sha256(synthetic, block_specs(small_config(), 1)), GetParam().block1_sha256);
}

TEST_P(WeightsByName, root_is_the_digest_of_sorted_tensor_digests) {
  std::map<std::string, std::string> digests;
  for (const TensorSpec& spec : specs)
    digests[spec.name] = sha256_hex(synthetic.tensor(spec.name).byte_span());
  std::string text;
  for (const auto& [name, digest] : digests) text += name + " " + digest + "\n";
  EXPECT_EQ(root_sha256(synthetic, specs), sha256_hex(text));
  std::vector<TensorSpec> reversed(specs.rbegin(), specs.rend());
  EXPECT_EQ(root_sha256(synthetic, reversed), sha256_hex(text));
}

TEST_P(WeightsByName, digests_see_every_tensor) {
  std::set<std::string> roots = {root_sha256(synthetic, specs)};
  for (std::size_t left_out = 0; left_out < specs.size(); ++left_out) {
    std::vector<TensorSpec> fewer = specs;
    fewer.erase(fewer.begin() + std::ptrdiff_t(left_out));
    EXPECT_TRUE(roots.insert(root_sha256(synthetic, fewer)).second) << specs[left_out].name;
  }
}

TEST_P(WeightsByName, unknown_names_are_refused) {
  EXPECT_THROW(synthetic.tensor("transformer_blocks.2.norm1.weight"), Error);
  EXPECT_THROW(synthetic.tensor(""), Error);
}

const WeightsCase kWeights[] = {
    {"seed_7", 7, "22aaf15550ed27c636edabc5c9074ac2fec9809cbe4a31b9a7c178116a7e6705"},
    {"seed_11", 11, "c0ecfffcd6995ecaf07d370df94fe1da96f7994dab07c4671f758b7e95fa3e6f"}};
INSTANTIATE_TEST_SUITE_P(host, WeightsByName, testing::ValuesIn(kWeights),
                         [](const auto& info) { return std::string(info.param.name); });

struct FolderCase {
  const char* name;
};
void PrintTo(const FolderCase& c, std::ostream* out) { *out << c.name; }

struct FolderOfWeights : testing::TestWithParam<FolderCase> {
  const SmallCheckpoint checkpoint;
};

TEST_P(FolderOfWeights, gives_the_tensors_that_were_written) {
  const FolderWeights folder(checkpoint.folder());
  EXPECT_EQ(folder.config(), small_config());
  EXPECT_EQ(root_sha256(folder, tensor_specs(small_config())),
            root_sha256(SyntheticWeights(7, small_config()), tensor_specs(small_config())));
}

TEST_P(FolderOfWeights, identity_tells_weights_apart_that_share_an_index) {
  const std::string before = FolderWeights(checkpoint.folder()).identity();
  EXPECT_EQ(FolderWeights(checkpoint.folder()).identity(), before);
  checkpoint.rewrite_shard(3, [](auto&) {});
  EXPECT_EQ(check_folder(checkpoint.folder(), small_config()).verdict, Verdict::other_weights);
  EXPECT_NE(FolderWeights(checkpoint.folder()).identity(), before);
}

TEST_P(FolderOfWeights, a_part_of_a_checkpoint_gives_what_it_has) {
  const std::string part = checkpoint.path("part");
  write_synthetic_checkpoint(part, 7, small_config(), block_specs(small_config(), 1), kShardBytes);
  const FolderWeights folder(part);
  EXPECT_EQ(folder.tensor(kNorm).elements(), 64);
  EXPECT_THROW(folder.tensor("transformer_blocks.0.norm1.weight"), Error);
  EXPECT_THROW(folder.tensor("transformer_blocks.9.norm1.weight"), Error);
}

TEST_P(FolderOfWeights, a_tensor_of_another_shape_is_refused) {
  checkpoint.rewrite_shard(3, [](auto& specs) {
    std::ranges::find(specs, kNorm, &TensorSpec::name)->shape = {8, 8};
  });
  EXPECT_THROW(FolderWeights(checkpoint.folder()).tensor(kNorm), Error);
}

TEST_P(FolderOfWeights, a_folder_without_config_is_refused) {
  fs::remove(checkpoint.path("config.json"));
  EXPECT_THROW(FolderWeights(checkpoint.folder()), Error);
}

const FolderCase kFolders[] = {{"small"}};
INSTANTIATE_TEST_SUITE_P(host, FolderOfWeights, testing::ValuesIn(kFolders),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
