#include "model/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <set>

#include "model/atomic_file.h"
#include "model/config_json.h"
#include "model/digest.h"
#include "model/json.h"
#include "model/parallel.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

std::map<std::string, TensorSpec> specs_by_name(const Config& config) {
  std::map<std::string, TensorSpec> specs;
  for (TensorSpec& spec : tensor_specs(config)) specs.emplace(spec.name, std::move(spec));
  return specs;
}

const TensorSpec& spec_of(const std::map<std::string, TensorSpec>& specs, const std::string& name) {
  const auto spec = specs.find(name);
  require(spec != specs.end(), "no tensor '{}' in this model", name);
  return spec->second;
}

// What is wrong with a stored tensor, or nothing.
std::optional<std::string> mismatch(const StoredTensor& stored, const TensorSpec& spec) {
  if (stored.shape == spec.shape && stored.dtype == spec.dtype) return std::nullopt;
  return fmt::format("tensor '{}' is {} {}, expected {} {}", spec.name, name_of(stored.dtype),
                     to_string(stored.shape), name_of(spec.dtype), to_string(spec.shape));
}

std::string path_in(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

}  // namespace

// ---- sources ----

std::string Weights::tensor_sha256(const TensorSpec& spec) const {
  return sha256_hex(tensor(spec.name).byte_span());
}

SyntheticWeights::SyntheticWeights(std::uint64_t seed, const Config& config)
    : seed_(seed), config_(config), specs_(specs_by_name(config)) {}

Tensor SyntheticWeights::tensor(const std::string& name) const {
  return synthetic(seed_, config_, spec_of(specs_, name));
}

const TensorSpec& SyntheticWeights::spec(const std::string& name) const { return spec_of(specs_, name); }

SyntheticRule SyntheticWeights::rule(const std::string& name) const {
  return synthetic_rule(seed_, config_, spec(name));
}

std::string SyntheticWeights::identity() const { return fmt::format("synthetic, seed {}", seed_); }

std::string SyntheticWeights::tensor_sha256(
    const TensorSpec& spec) const {  // in pieces that stay in the cache
  constexpr std::int64_t kPiece = std::int64_t(1) << 17;
  const SyntheticRule rule = synthetic_rule(seed_, config_, spec);
  const std::int64_t count = spec.elements(), width = std::int64_t(size_of(spec.dtype));
  std::vector<std::byte> bytes(std::size_t(kPiece * width));
  Sha256 digest;
  for (std::int64_t at = 0; at < count; at += kPiece) {
    const std::int64_t piece = std::min(kPiece, count - at);
    fill_range(rule, spec.dtype, at, piece, bytes.data());
    digest.update(std::span(bytes).first(std::size_t(piece * width)));
  }
  return digest.hex();
}

FolderWeights::FolderWeights(const std::string& folder)
    : folder_(folder),
      config_(config_from_json(read_json(path_in(folder, "config.json")), path_in(folder, "config.json"))),
      tensors_(folder),
      specs_(specs_by_name(config_)) {}

Tensor FolderWeights::tensor(const std::string& name) const {
  const TensorSpec& spec = spec_of(specs_, name);
  const StoredTensor* stored = tensors_.find(name);
  require(stored, "{}: no tensor '{}'", folder_, name);
  const auto problem = mismatch(*stored, spec);
  require(!problem, "{}: {}", folder_, problem.value_or(""));
  return tensors_.tensor(name);
}

std::string FolderWeights::identity() const {
  std::call_once(identified_, [this] {
    constexpr std::size_t kSample = 65536;
    Sha256 sample;
    for (const std::string& name : tensors_.names()) {
      const Tensor values = tensors_.tensor(name);
      sample.update(name);
      sample.update(values.byte_span().first(std::min(kSample, values.size_bytes())));
    }
    const std::string index = path_in(folder_, kIndexName);
    const std::string index_sha256 = fs::exists(index) ? digest_file(index).sha256 : "none";
    const std::string origin =
        index_sha256 == kRelease.index.sha256
            ? fmt::format("index of {} revision {}", kRelease.repository, kRelease.revision)
            : "index sha256 " + index_sha256;
    const std::string folder_name = fs::weakly_canonical(folder_).filename().string();
    identity_ = fmt::format("folder {}, {}, sample sha256 {}", folder_name, origin, sample.hex());
  });
  return identity_;
}

std::unique_ptr<Weights> open_weights(const std::string& folder, std::uint64_t seed, const Config& config) {
  if (folder.empty()) return std::make_unique<SyntheticWeights>(seed, config);
  auto weights = std::make_unique<FolderWeights>(folder);
  require(weights->config() == config, "{}: config.json describes another model than the one asked for",
          folder);
  return weights;
}

std::string root_sha256(const Weights& weights, std::vector<TensorSpec> specs, const OnBytes& on_bytes) {
  std::ranges::sort(specs, {}, &TensorSpec::name);
  std::vector<std::size_t> largest_first(specs.size());
  std::iota(largest_first.begin(), largest_first.end(), std::size_t(0));
  std::ranges::stable_sort(largest_first, std::greater(),
                           [&](std::size_t i) { return specs[i].size_bytes(); });
  std::vector<std::string> digests(specs.size());
  parallel_for(0, std::int64_t(specs.size()), 1, [&](std::int64_t first, std::int64_t) {
    const std::size_t i = largest_first[std::size_t(first)];
    digests[i] = weights.tensor_sha256(specs[i]);
    if (on_bytes) on_bytes(specs[i].size_bytes());
  });
  Sha256 root;
  for (std::size_t i = 0; i < specs.size(); ++i)
    root.update(fmt::format("{} {}\n", specs[i].name, digests[i]));
  return root.hex();
}

// ---- checking a folder ----

const char* text_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::released:
      return "released checkpoint";
    case Verdict::other_weights:
      return "same architecture, other weights";
    case Verdict::broken:
      return "broken checkpoint";
  }
  return "?";
}

namespace {

// One pass over a folder; each step adds to the report and lets the next ones go on.
class FolderCheck {
 public:
  FolderCheck(const std::string& folder, const Config& expected, bool hash, const OnBytes& on_bytes)
      : folder_(folder), expected_(expected), hash_(hash), on_bytes_(on_bytes) {}

  CheckpointReport run() {
    attempt([&] { check_config(); });
    attempt([&] { read_weight_map(); });
    for (const std::string& name : shard_names_) attempt([&] { open_shard(name); });
    check_tensors();
    if (hash_) hash_shards();
    report_.verdict = verdict();
    return std::move(report_);
  }

 private:
  template <class... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    report_.problems.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  template <class Step>
  void attempt(Step step) {
    try {
      step();
    } catch (const std::exception& error) {  // ours, and the file system's
      problem("{}", error.what());
    }
  }

  CheckedFile& add_small_file(const std::string& name) {
    const FileDigest digest = digest_file(path_in(folder_, name));
    report_.files.push_back({name, digest.sha256, digest.size});
    return report_.files.back();
  }

  void check_config() {
    config_sha256_ = add_small_file("config.json").sha256;
    for (const std::string& line : config_differences(read_json(path_in(folder_, "config.json")), expected_))
      problem("config.json: {}", line);
  }

  void read_weight_map() {
    if (!fs::exists(path_in(folder_, kIndexName)) && fs::exists(path_in(folder_, kSingleName))) {
      shard_names_ = {kSingleName};
      return;
    }
    index_sha256_ = add_small_file(kIndexName).sha256;
    index_ = read_index(path_in(folder_, kIndexName));
    for (const auto& [name, file] : index_->weight_map) shard_names_.insert(file);
  }

  void open_shard(const std::string& name) {
    require(fs::exists(path_in(folder_, name)), "shard {} is missing", name);
    const auto shard = std::make_shared<const SafetensorsFile>(path_in(folder_, name));
    shards_[name] = shard;
    report_.files.push_back({name, "", shard->size_bytes()});
  }

  void check_tensors() {
    if (shard_names_.empty()) return;
    const auto specs = specs_by_name(expected_);
    std::uint64_t stored_bytes = 0;
    for (const auto& [shard_name, shard] : shards_)
      for (const StoredTensor& stored : shard->tensors()) {
        stored_bytes += stored.end - stored.begin;
        const auto spec = specs.find(stored.name);
        if (spec == specs.end()) {
          problem("{}: tensor '{}' is not part of the model", shard_name, stored.name);
        } else if (const auto what = mismatch(stored, spec->second)) {
          problem("{}: {}", shard_name, *what);
        } else {
          ++report_.tensors;
          report_.size_bytes += spec->second.size_bytes();
        }
        check_place(shard_name, stored.name);
      }
    for (const auto& [name, spec] : specs)
      if (!is_stored(name) && !is_in_lost_shard(name)) problem("tensor '{}' is missing", name);
    if (!index_) return;
    for (const auto& [name, file] : index_->weight_map)
      if (shards_.contains(file) && !shards_.at(file)->find(name))
        problem("{}: the index puts tensor '{}' here, but it is not", file, name);
    if (shards_.size() == shard_names_.size() && index_->total_size != stored_bytes)
      problem("{}: total_size is {}, the shards hold {} bytes", kIndexName, index_->total_size, stored_bytes);
  }

  void check_place(const std::string& shard_name, const std::string& tensor) {
    if (!index_) return;
    const auto place = index_->weight_map.find(tensor);
    if (place == index_->weight_map.end())
      problem("{}: tensor '{}' is not in the index", shard_name, tensor);
    else if (place->second != shard_name)
      problem("{}: tensor '{}' lies here, the index puts it in {}", shard_name, tensor, place->second);
  }

  bool is_stored(const std::string& tensor) const {
    return std::ranges::any_of(shards_,
                               [&](const auto& shard) { return shard.second->find(tensor) != nullptr; });
  }

  // Its shard is a problem already; one line per tensor would bury it.
  bool is_in_lost_shard(const std::string& tensor) const {
    if (!index_) return false;
    const auto place = index_->weight_map.find(tensor);
    return place != index_->weight_map.end() && !shards_.contains(place->second);
  }

  void hash_shards() {
    for (CheckedFile& file : report_.files) {
      if (!shards_.contains(file.name)) continue;
      attempt([&] { file.sha256 = digest_file(path_in(folder_, file.name)).sha256; });
      if (on_bytes_) on_bytes_(std::int64_t(file.size));
    }
  }

  // The release's config and index with another first shard is a damaged download, not another model.
  Verdict verdict() {
    if (config_sha256_ == kRelease.config.sha256 && index_sha256_ == kRelease.index.sha256) {
      for (const CheckedFile& file : report_.files) {
        if (file.name != kRelease.first_shard.name) continue;
        if (file.size != kRelease.first_shard.size)
          problem("{}: {} bytes, released with {}", file.name, file.size, kRelease.first_shard.size);
        else if (!file.sha256.empty() && file.sha256 != kRelease.first_shard.sha256)
          problem("{}: sha256 {}, released with {}", file.name, file.sha256, kRelease.first_shard.sha256);
      }
      return report_.problems.empty() ? Verdict::released : Verdict::broken;
    }
    return report_.problems.empty() ? Verdict::other_weights : Verdict::broken;
  }

  const std::string folder_;
  const Config expected_;
  const bool hash_;
  const OnBytes& on_bytes_;
  CheckpointReport report_;
  std::string config_sha256_, index_sha256_;
  std::optional<SafetensorsIndex> index_;
  std::set<std::string> shard_names_;
  std::map<std::string, std::shared_ptr<const SafetensorsFile>> shards_;
};

}  // namespace

CheckpointReport check_folder(const std::string& folder, const Config& expected, bool hash,
                              const OnBytes& on_bytes) {
  return FolderCheck(folder, expected, hash, on_bytes).run();
}

void write_synthetic_checkpoint(const std::string& folder, std::uint64_t seed, const Config& config,
                                const std::vector<TensorSpec>& specs, std::uint64_t shard_bytes,
                                const OnBytes& on_bytes) {
  write_safetensors_folder(
      folder, specs,
      [&](const TensorSpec& spec) {
        Tensor tensor = synthetic(seed, config, spec);
        if (on_bytes) on_bytes(spec.size_bytes());
        return tensor;
      },
      shard_bytes);
  AtomicFile file(path_in(folder, "config.json"));
  file.write(config_to_json(config).dump(2) + "\n");
  file.commit();
}

}  // namespace h3
