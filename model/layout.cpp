#include "model/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

#include "model/digest.h"

namespace h3 {
namespace {

constexpr double kUnitsPerFrame = 5.0 / 3.0;  // rotary time of a pixel frame: 40 / 24
constexpr std::array<double, 5> kFramesPerLatent = {1, 4, 4, 4, 4};
constexpr double kSpatialScale = 32;

double span_of(std::int64_t latent_frame) {
  return kUnitsPerFrame * kFramesPerLatent[std::size_t(latent_frame) % 5];
}

double sequential_span(std::int64_t latent_frames) {
  double sum = 0;
  for (std::int64_t f = 0; f < latent_frames; ++f) sum += span_of(f);
  return sum;
}

// numpy's pairwise order: eight running sums over blocks of up to 128 terms, halves of larger ranges added.
// From 16 latent frames on it differs from the sequential sum in the last digits, and the provider uses both.
double pairwise_span(std::int64_t first, std::int64_t count) {
  if (count < 8) {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += span_of(first + i);
    return sum;
  }
  if (count > 128) {
    const std::int64_t half = count / 2 - (count / 2) % 8;
    return pairwise_span(first, half) + pairwise_span(first + half, count - half);
  }
  std::array<double, 8> lane;
  for (std::int64_t k = 0; k < 8; ++k) lane[std::size_t(k)] = span_of(first + k);
  const std::int64_t whole = count - count % 8;
  for (std::int64_t i = 8; i < whole; ++i) lane[std::size_t(i % 8)] += span_of(first + i);
  double sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  for (std::int64_t i = whole; i < count; ++i) sum += span_of(first + i);
  return sum;
}

// Left edges of the patches along one axis, centred, relative to the square root of the area. numpy's
// linspace(left, left + ratio, points, endpoint=False): index * step, then + left.
std::vector<double> axis_grid(std::int64_t size, std::int64_t patch, double root_area) {
  const double ratio = double(size) / root_area, left = (1.0 - ratio) / 2.0;
  const std::int64_t points = size / patch;
  const double step = ((left + ratio) - left) / double(points);
  std::vector<double> grid;
  for (std::int64_t i = 0; i < points; ++i) grid.push_back((double(i) * step + left) * kSpatialScale);
  return grid;
}

struct FrameGrid {
  std::vector<double> h, w;
  FrameGrid(const LatentGrid& latent, const Config& config) {
    rows_per_frame(latent, config);  // rejects what the patch does not divide
    const double root_area = std::sqrt(double(latent.height * latent.width));
    h = axis_grid(latent.height, config.patch_h, root_area);
    w = axis_grid(latent.width, config.patch_w, root_area);
  }
};

// Appends rows in packed order.
class Packer {
 public:
  explicit Packer(Task task) { layout_.task = task; }

  void text(std::span<const std::int64_t> tags) {
    for (std::size_t r = 0; r < tags.size(); ++r) row(layout_.text_indices, Tag(tags[r]), double(r), 0, 0);
  }

  void frame(const FrameGrid& grid, double time) {
    for (const double h : grid.h)
      for (const double w : grid.w) row(layout_.video_indices, Tag::video, time, h, w);
  }

  void video(const FrameGrid& grid, std::int64_t frames, double origin) {
    double elapsed = 0;
    for (std::int64_t f = 0; f < frames; ++f) {
      frame(grid, origin + elapsed);
      elapsed += span_of(f);
    }
  }

  // Audio has no height; its two channels sit at the ends of a width grid.
  void audio(const FrameGrid& grid, std::int64_t latents, double origin) {
    for (const double w : {grid.w.front(), grid.w.back()})
      for (std::int64_t n = 0; n < latents; ++n)
        row(layout_.audio_indices, Tag::audio, origin + double(n), 0, w);
  }

  void conditions_end() {
    layout_.condition_video_rows = std::int64_t(layout_.video_indices.size());
    layout_.condition_audio_rows = std::int64_t(layout_.audio_indices.size());
  }

  PackedLayout finish(StepTimes times) {
    layout_.row_ids.resize(layout_.token_tags.size());
    std::iota(layout_.row_ids.begin(), layout_.row_ids.end(), 0);
    layout_.set_times(times);
    layout_.validate();
    return std::move(layout_);
  }

 private:
  void row(std::vector<std::int64_t>& stream, Tag tag, double t, double h, double w) {
    stream.push_back(layout_.rows());
    layout_.token_tags.push_back(std::int64_t(tag));
    layout_.positions.insert(layout_.positions.end(), {t, h, w});
  }
  PackedLayout layout_;
};

void require_target(const Target& target) {
  require(target.audio_latents >= 0, "target: {} audio latents, expected none or more", target.audio_latents);
}

template <class T>
Tensor tensor_of(const std::vector<T>& values, Shape shape) {
  Tensor tensor(DTypeOf<T>::value, std::move(shape));
  std::copy(values.begin(), values.end(), tensor.template data<T>());
  return tensor;
}

}  // namespace

std::vector<std::int64_t> inverse_permutation(std::span<const std::int64_t> permutation) {
  const auto rows = std::int64_t(permutation.size());
  std::vector<std::int64_t> inverse(permutation.size(), -1);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = permutation[std::size_t(i)];
    require(row >= 0 && row < rows, "permutation: entry {} is {}, expected 0..{}", i, row, rows - 1);
    require(inverse[std::size_t(row)] < 0, "permutation: row {} occurs twice", row);
    inverse[std::size_t(row)] = i;
  }
  return inverse;
}

std::vector<std::int64_t> PackedLayout::adaln_indices() const {
  std::vector<std::int64_t> indices;
  for (std::size_t s = 0; s < token_tags.size(); ++s)
    indices.push_back(kTags * timestep_indices[s] + token_tags[s]);
  return indices;
}

void PackedLayout::set_times(StepTimes times) {
  for (const float t : {times.video, times.audio})
    require(t >= 0 && t <= 1, "layout: timestep {}, expected a value in [0, 1]", t);
  std::vector<float> row_times(token_tags.size(), times.video);
  const auto assign = [&](const std::vector<std::int64_t>& stream, std::int64_t first, std::int64_t last,
                          float time) {
    for (std::int64_t i = first; i < last; ++i) row_times[std::size_t(stream[std::size_t(i)])] = time;
  };
  assign(video_indices, 0, condition_video_rows, float(std::max(double(times.video), kConditionTime)));
  assign(audio_indices, 0, condition_audio_rows, 1.0f);
  assign(audio_indices, condition_audio_rows, std::int64_t(audio_indices.size()), times.audio);

  timesteps = row_times;
  std::sort(timesteps.begin(), timesteps.end());
  timesteps.erase(std::unique(timesteps.begin(), timesteps.end()), timesteps.end());
  timestep_indices.clear();
  for (const float time : row_times)
    timestep_indices.push_back(std::lower_bound(timesteps.begin(), timesteps.end(), time) -
                               timesteps.begin());
}

PackedLayout PackedLayout::permuted(std::span<const std::int64_t> permutation) const {
  require(std::int64_t(permutation.size()) == rows(), "permutation of {} rows for a layout of {}",
          permutation.size(), rows());
  const std::vector<std::int64_t> inverse = inverse_permutation(permutation);
  PackedLayout result = *this;
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    const auto from = std::size_t(permutation[i]);
    result.token_tags[i] = token_tags[from];
    result.timestep_indices[i] = timestep_indices[from];
    result.row_ids[i] = row_ids[from];
    std::copy_n(&positions[3 * from], 3, &result.positions[3 * i]);
  }
  for (auto* stream : {&result.text_indices, &result.video_indices, &result.audio_indices})
    for (auto& row : *stream) row = inverse[std::size_t(row)];
  return result;
}

std::vector<std::int64_t> PackedLayout::canonical_order() const { return inverse_permutation(row_ids); }

void PackedLayout::validate() const {
  const std::size_t count = token_tags.size();
  require(count > 0, "layout: no rows");
  require(positions.size() == 3 * count && timestep_indices.size() == count && row_ids.size() == count,
          "layout: {} tags, {} positions, {} timestep indices and {} row ids, expected S, 3 S, S and S",
          count, positions.size(), timestep_indices.size(), row_ids.size());
  for (std::size_t u = 0; u < timesteps.size(); ++u)
    require(timesteps[u] >= 0 && timesteps[u] <= 1, "layout: timestep {} is {}, expected a value in [0, 1]",
            u, timesteps[u]);
  for (std::size_t s = 0; s < count; ++s) {
    require(token_tags[s] >= 0 && token_tags[s] < kTags, "layout: row {} has tag {}, expected 0..2", s,
            token_tags[s]);
    require(timestep_indices[s] >= 0 && timestep_indices[s] < std::int64_t(timesteps.size()),
            "layout: row {} has timestep index {}, expected 0..{}", s, timestep_indices[s],
            std::int64_t(timesteps.size()) - 1);
    for (std::size_t axis = 0; axis < 3; ++axis)
      require(std::isfinite(positions[3 * s + axis]),
              "layout: row {} has position {} on axis {}, expected a number", s, positions[3 * s + axis],
              "thw"[axis]);
  }
  inverse_permutation(row_ids);

  struct Stream {
    const char* name;
    const std::vector<std::int64_t>& indices;
    std::int64_t conditions, other_tag;  // the one other tag its rows may carry
    Tag tag;
  };
  const Stream streams[] = {
      {"text", text_indices, 0, std::int64_t(Tag::video), Tag::text},
      {"video", video_indices, condition_video_rows, std::int64_t(Tag::video), Tag::video},
      {"audio", audio_indices, condition_audio_rows, std::int64_t(Tag::audio), Tag::audio}};
  std::vector<const char*> owner(count, nullptr);
  for (const auto& stream : streams) {
    require(stream.conditions >= 0 && stream.conditions <= std::int64_t(stream.indices.size()),
            "layout: {} condition rows among {} {} rows", stream.conditions, stream.indices.size(),
            stream.name);
    std::int64_t last_id = -1;
    for (const std::int64_t row : stream.indices) {
      require(row >= 0 && row < std::int64_t(count), "layout: {} row {}, expected 0..{}", stream.name, row,
              count - 1);
      const auto s = std::size_t(row);
      require(!owner[s], "layout: row {} is listed twice, as {} and as {}", row, owner[s] ? owner[s] : "",
              stream.name);
      owner[s] = stream.name;
      require(token_tags[s] == std::int64_t(stream.tag) || token_tags[s] == stream.other_tag,
              "layout: {} row {} has tag {}", stream.name, row, token_tags[s]);
      require(row_ids[s] > last_id, "layout: {} row {} has id {} after {}, expected the packed order",
              stream.name, row, row_ids[s], last_id);
      last_id = row_ids[s];
    }
  }
  const auto missing = std::find(owner.begin(), owner.end(), nullptr);
  require(missing == owner.end(), "layout: row {} is in none of the text, video and audio rows",
          missing - owner.begin());
}

std::string PackedLayout::sha256() const {
  Sha256 hash;
  hash.update(std::string_view("h3_packed_layout_1\n"));
  const auto add = [&](const auto& values) {
    const std::int64_t count = std::int64_t(values.size());
    hash.update(std::as_bytes(std::span(&count, 1)));
    hash.update(std::as_bytes(std::span(values)));
  };
  add(token_tags);
  add(positions);
  add(text_indices);
  add(video_indices);
  add(audio_indices);
  add(std::array{condition_video_rows, condition_audio_rows});
  add(timesteps);
  add(timestep_indices);
  return hash.hex();
}

Tensor PackedLayout::token_tags_tensor() const { return tensor_of(token_tags, {rows()}); }
Tensor PackedLayout::positions_tensor() const { return tensor_of(positions, {rows(), 3}); }
Tensor PackedLayout::timesteps_tensor() const {
  return tensor_of(timesteps, {std::int64_t(timesteps.size())});
}
Tensor PackedLayout::timestep_indices_tensor() const { return tensor_of(timestep_indices, {rows()}); }
Tensor PackedLayout::adaln_indices_tensor() const { return tensor_of(adaln_indices(), {rows()}); }

PackedLayout build_fl2va(std::span<const std::int64_t> text_tags, const Target& target,
                         std::span<const Anchor> anchors, StepTimes times, const Config& config) {
  require_target(target);
  const FrameGrid grid(target.video, config);
  const double origin = double(text_tags.size());
  Packer packer(anchors.empty() ? Task::t2va : Task::fl2va);
  packer.text(text_tags);
  for (const Anchor anchor : anchors) {
    // "last" is the time of the last pixel frame, not the start of the last latent frame.
    const double time =
        anchor == Anchor::first ? origin : origin + pairwise_span(0, target.video.frames) - kUnitsPerFrame;
    packer.frame(grid, time);
  }
  packer.conditions_end();
  packer.audio(grid, target.audio_latents, origin);
  packer.video(grid, target.video.frames, origin);
  return packer.finish(times);
}

PackedLayout build_ref2va(std::span<const std::int64_t> text_tags, std::span<const Reference> references,
                          const Target& target, StepTimes times, const Config& config) {
  require_target(target);
  const FrameGrid target_grid(target.video, config);
  double clock = double(text_tags.size());
  Packer packer(Task::ref2va);
  packer.text(text_tags);
  for (const Reference& reference : references) {
    require(reference.audio_latents >= 0, "reference: {} audio latents, expected none or more",
            reference.audio_latents);
    if (reference.kind == Reference::Kind::audio) {
      packer.audio(target_grid, reference.audio_latents, clock);
      clock += double(reference.audio_latents);
      continue;
    }
    const FrameGrid grid(reference.video, config);
    if (reference.kind == Reference::Kind::image) {
      require(reference.video.frames == 1, "reference: an image of {} latent frames, expected 1",
              reference.video.frames);
      packer.frame(grid, clock);
      clock += 1.0;  // one slot, not the 5/3 units of a frame
    } else {
      packer.audio(grid, reference.audio_latents, clock);
      packer.video(grid, reference.video.frames, clock);
      clock += std::max(double(reference.audio_latents), sequential_span(reference.video.frames));
    }
  }
  packer.conditions_end();
  packer.audio(target_grid, target.audio_latents, clock);
  packer.video(target_grid, target.video.frames, clock);
  return packer.finish(times);
}

}  // namespace h3
