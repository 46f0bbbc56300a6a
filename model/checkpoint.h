// Where weights come from, what they are called in evidence, and whether a folder is the checkpoint it should
// be.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/fingerprint.h"
#include "model/safetensors.h"
#include "model/synthetic_rule.h"
#include "model/tensor.h"

namespace h3 {

// The weights of one model. Tensors come under their checkpoint names, in their released dtypes.
class Weights {
 public:
  virtual ~Weights() = default;
  virtual const Config& config() const = 0;
  virtual Tensor tensor(const std::string& name) const = 0;  // fails for a name that the model does not have
  virtual std::string identity() const = 0;                  // one line, for evidence
  virtual std::string tensor_sha256(const TensorSpec& spec) const;  // of its bytes
};

// Values of model/synthetic.h: made on demand, nothing is kept.
class SyntheticWeights : public Weights {
 public:
  explicit SyntheticWeights(std::uint64_t seed, const Config& config = {});
  const Config& config() const override { return config_; }
  Tensor tensor(const std::string& name) const override;
  std::string identity() const override;  // "synthetic, seed 7"
  std::string tensor_sha256(const TensorSpec& spec) const override;
  // What a tensor is made of, for those who make it elsewhere.
  const TensorSpec& spec(const std::string& name) const;
  SyntheticRule rule(const std::string& name) const;

 private:
  std::uint64_t seed_;
  Config config_;
  std::map<std::string, TensorSpec> specs_;
};

// A checkpoint folder, memory-mapped. Its config.json says which model it is; a tensor is handed out only in
// the shape and dtype that this model needs. Some tensors may be missing (a part of a checkpoint): asking for
// one of them fails.
class FolderWeights : public Weights {
 public:
  explicit FolderWeights(const std::string& folder);
  const Config& config() const override { return config_; }
  Tensor tensor(const std::string& name) const override;
  // Folder name, digest of the index, and a digest over the first 64 KiB of every tensor: an index alone does
  // not tell a fine-tuned model from the released one.
  std::string identity() const override;

 private:
  std::string folder_;
  Config config_;
  SafetensorsFolder tensors_;
  std::map<std::string, TensorSpec> specs_;
  mutable std::once_flag identified_;
  mutable std::string identity_;
};

// Weights of a folder, or synthetic ones when `folder` is empty.
std::unique_ptr<Weights> open_weights(const std::string& folder, std::uint64_t seed, const Config& config = {});

// Called with a number of bytes done, possibly from several threads.
using OnBytes = std::function<void(std::int64_t)>;

// SHA-256 over the lines "<name> <sha256 of its bytes>\n" of the tensors, sorted by name; tensors are hashed
// in parallel.
std::string root_sha256(const Weights& weights, std::vector<TensorSpec> specs, const OnBytes& on_bytes = {});

// ---- the public release ----

struct PinnedFile {
  const char* name;
  const char* sha256;
  std::uint64_t size;  // 0: not pinned
};
struct PublicRelease {
  const char* repository = "MiniMaxAI/MiniMax-H3";
  const char* revision = "42ed227ee7df40d41602854ae760620d6eb651fe";
  const char* folder = "transformer";
  int shards = 14;
  PinnedFile config = {"config.json", "74c11bff524336576096993cbfcdcdc2ef4fa2fa4409df693bdcbc6c666282ae", 0};
  PinnedFile index = {kIndexName, "ac30a3b58963f2e735d493475fbb81853a5735ec947619648b3e045acda6783e", 0};
  PinnedFile first_shard = {"diffusion_pytorch_model-00001-of-00014.safetensors",
                            "2d847200c45c09dd7f973c1b096663068408ef851ee0b3711d059b6dc5dcd028",
                            4'825'958'704};
};
inline constexpr PublicRelease kRelease;

// ---- checking a folder ----

enum class Verdict : std::uint8_t {
  released,       // config, index and first shard are those of kRelease (the shard's digest only when it was
                  // taken)
  other_weights,  // a complete checkpoint of the expected model
  broken,         // see problems
};
const char* text_of(
    Verdict verdict);  // "released checkpoint", "same architecture, other weights", "broken checkpoint"

struct CheckedFile {
  std::string name, sha256;  // sha256 empty when it was not taken
  std::uint64_t size = 0;
};

struct CheckpointReport {
  Verdict verdict = Verdict::broken;
  std::int64_t tensors = 0, size_bytes = 0;  // found, of those that the model has
  std::vector<CheckedFile> files;            // config, index, shards
  std::vector<std::string> problems;         // one line each; never stops at the first
};

// Holds a folder against the model's tensor list and the pinned identity. With `hash`, every shard is read
// and digested. A folder that cannot be read at all is a report with problems, not an exception.
CheckpointReport check_folder(const std::string& folder, const Config& expected = {}, bool hash = false,
                              const OnBytes& on_bytes = {});

// Writes config.json, shards and index of a synthetic checkpoint. `specs` may be a part of the model's
// tensors.
void write_synthetic_checkpoint(const std::string& folder, std::uint64_t seed, const Config& config,
                                const std::vector<TensorSpec>& specs, std::uint64_t shard_bytes,
                                const OnBytes& on_bytes = {});

}  // namespace h3
