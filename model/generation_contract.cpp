#include "model/generation_contract.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>

#include "model/digest.h"
#include "model/error.h"
#include "model/json.h"
#include "model/named_configs.h"

namespace h3 {
namespace {

using Json = nlohmann::json;

std::string excerpt(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

// The fields of an object, each read once; what nobody reads is refused.
class Fields {
 public:
  Fields(const Json& object, std::string what) : object_(object), what_(std::move(what)) {
    require(object.is_object(), "{}: expected an object", what_);
  }

  const Json& at(const std::string& name) {
    require(object_.contains(name), "{}: '{}' is missing", what_, name);
    read_.insert(name);
    return object_[name];
  }
  bool contains(const std::string& name) const { return object_.contains(name); }

  std::string text(const std::string& name) {
    const Json& value = at(name);
    require(value.is_string(), "{}: '{}' is {}, expected text", what_, name, excerpt(value));
    return value.get<std::string>();
  }
  std::int64_t integer(const std::string& name, std::int64_t least, std::int64_t most = INT64_MAX) {
    const Json& value = at(name);
    const auto integer = integer_of<std::int64_t>(value);
    require(integer && *integer >= least && *integer <= most,
            "{}: '{}' is {}, expected an integer from {} to {}", what_, name, excerpt(value), least, most);
    return *integer;
  }
  double number(const std::string& name, double above, double most) {
    const Json& value = at(name);
    require(value.is_number() && value.get<double>() > above && value.get<double>() <= most,
            "{}: '{}' is {}, expected above {} and at most {}", what_, name, excerpt(value), above, most);
    return value.get<double>();
  }
  template <class T>
  void constant(const std::string& name, const T& expected) {
    const Json& value = at(name);
    require(value == Json(expected), "{}: '{}' is {}, expected {}", what_, name, excerpt(value),
            Json(expected).dump());
  }
  Fields object(const std::string& name) { return {at(name), fmt::format("{}: {}", what_, name)}; }

  void require_no_others() const {
    for (const auto& [name, value] : object_.items())
      require(read_.contains(name), "{}: '{}' is no field of a contract", what_, name);
  }

 private:
  const Json& object_;
  std::string what_;
  std::set<std::string> read_;
};

// More than any request has: a contract may not ask for memory or time without end.
constexpr std::int64_t kMostFrames = 345, kLongestEdge = 2048, kMostTextRows = 16384, kMostGridPoints = 1000;
constexpr std::size_t kMostKeyframes = 2, kMostSeeds = 1000;

std::vector<Anchor> anchors_of(const Json& names, const std::string& what) {
  std::vector<Anchor> anchors;
  require(names.is_array() && names.size() <= kMostKeyframes,
          "{}: 'keyframes' is {}, expected a list of at most {}", what, excerpt(names), kMostKeyframes);
  for (const auto& name : names) {
    require(name == "first" || name == "last", "{}: keyframe {}, expected first or last", what,
            excerpt(name));
    anchors.push_back(name == "first" ? Anchor::first : Anchor::last);
  }
  return anchors;
}

std::vector<std::uint64_t> seeds_of(const Json& values, const std::string& what) {
  require(values.is_array() && !values.empty() && values.size() <= kMostSeeds,
          "{}: 'seeds' is {}, expected a list of 1 to {}", what, excerpt(values), kMostSeeds);
  std::vector<std::uint64_t> seeds;
  for (const auto& value : values) {
    require(value.is_number_unsigned(), "{}: seed {}, expected an integer of at least 0", what,
            excerpt(value));
    seeds.push_back(value.get<std::uint64_t>());
    require(std::ranges::count(seeds, seeds.back()) == 1, "{}: seed {} appears twice", what, seeds.back());
  }
  return seeds;
}

void read_weights(Fields fields, GenerationContract& contract) {
  contract.synthetic_weights = fields.contains("synthetic_seed");
  if (contract.synthetic_weights) {
    contract.weights_seed = std::uint64_t(fields.integer("synthetic_seed", 0));
    contract.weights = fmt::format("synthetic, seed {}", contract.weights_seed);
  } else {
    contract.weights = fields.text("checkpoint");
  }
  fields.require_no_others();
}

// What the model's own rules refuse, with the name of the text it came from.
template <class Action>
auto named(const std::string& what, const Action& action) {
  try {
    return action();
  } catch (const Error& error) {
    fail("{}: {}", what, error.what());
  }
}

}  // namespace

PackedLayout GenerationContract::layout(std::int64_t evaluation) const {
  const Schedule video = video_schedule(), audio = audio_schedule();
  require(evaluation >= 0 && evaluation < video.evaluations(), "contract: evaluation {}, expected 0..{}",
          evaluation, video.evaluations() - 1);
  const StepTimes times = {video.timesteps[std::size_t(evaluation)],
                           audio.timesteps[std::size_t(evaluation)]};
  return build_fl2va(keyframe_text_tags(text_rows, vision_rows, std::int64_t(keyframes.size())), target(),
                     keyframes, times, config);
}

void GenerationContract::require_seed(std::uint64_t seed) const {
  require(std::ranges::count(seeds, seed) == 1, "seed {}: the contract is for {}", seed,
          fmt::join(seeds, ", "));
}

GenerationContract parse_contract(const std::string& text, const std::string& what) {
  const Json json = parse_json(text, what);
  Fields fields(json, what);
  GenerationContract contract;
  contract.text = text;
  contract.sha256 = sha256_hex(text);
  fields.constant("contract", "h3_generation_1");
  contract.config_name = fields.text("config");
  contract.config = named(what, [&] { return config_named(contract.config_name); });
  read_weights(fields.object("weights"), contract);
  Fields conditions = fields.object("conditions");
  contract.condition_seed = std::uint64_t(conditions.integer("synthetic_seed", 0));
  conditions.require_no_others();

  contract.frames = fields.integer("frames", 1, kMostFrames);
  contract.canvas = {fields.integer("height", 1, kLongestEdge), fields.integer("width", 1, kLongestEdge)};
  fields.constant("frames_per_second", kFramesPerSecond);
  fields.constant("audio_sample_rate", kAudioSampleRate);
  contract.keyframes = anchors_of(fields.at("keyframes"), what);
  contract.text_rows = fields.integer("text_rows", 1, kMostTextRows);
  contract.vision_rows = fields.integer("vision_rows", 0, kMostTextRows);
  contract.seeds = seeds_of(fields.at("seeds"), what);
  contract.grid_points = fields.integer("grid_points", 2, kMostGridPoints);
  contract.video_shift = fields.number("video_shift", 0, 1000);
  contract.audio_shift = fields.number("audio_shift", 0, 1000);
  fields.constant("conditioning", kConditionTime);

  Fields bounds = fields.object("bounds");
  contract.bounds = {bounds.number("psnr_db", 0, 200), bounds.number("ssim", 0, 1),
                     bounds.number("temporal_rmse", 0, 1), bounds.number("audio_relative_l2", 0, 1)};
  bounds.require_no_others();

  const std::string recorded = fields.text("layout_sha256");
  fields.require_no_others();
  require(contract.video_schedule().evaluations() == contract.evaluations() &&
              contract.audio_schedule().evaluations() == contract.evaluations(),
          "{}: neighbouring sigmas of {} grid points are equal", what, contract.grid_points);
  const std::string built = named(what, [&] { return contract.layout(0).sha256(); });
  require(built == recorded, "{}: 'layout_sha256' is {}, the request's layout has {}", what, recorded, built);
  return contract;
}

GenerationContract read_contract(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "{}: cannot open the contract", path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  require(!file.bad(), "{}: cannot read", path);
  return parse_contract(text, path);
}

}  // namespace h3
