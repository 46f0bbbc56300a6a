#include <algorithm>
#include <iterator>

#include "model/layout.h"
#include "model/scheduler.h"

namespace h3 {
namespace {

struct NamedLayout {
  const char* name;
  std::int64_t text_rows;
  std::int64_t vision_rows;  // of each keyframe's block in the text, start and end marker included
  std::vector<Anchor> anchors;
  std::int64_t frames;  // pixel frames
  Canvas canvas;
};

const std::vector<NamedLayout>& table() {
  static const std::vector<NamedLayout> layouts = {
      {"tiny", 32, 10, {Anchor::first}, 5, {8 * 32, 9 * 32}},
      {"small", 32, 8, {Anchor::first, Anchor::last}, 22, {7 * 32, 13 * 32}},
      {"medium", 1070, 226, {Anchor::first, Anchor::last}, 22, {14 * 32, 16 * 32}},
      {"768p-124f", 256, 200, {Anchor::first}, 124, {768, 1344}},
  };
  return layouts;
}

constexpr std::int64_t kLabelRows = 4;  // "<Picture i>: "

PackedLayout built(const NamedLayout& layout) {
  constexpr std::size_t kEvaluation = 20;
  const StepTimes times = {make_schedule(kDefaultGridPoints, kVideoShift).timesteps[kEvaluation],
                           make_schedule(kDefaultGridPoints, kAudioShift).timesteps[kEvaluation]};
  const auto tags =
      keyframe_text_tags(layout.text_rows, layout.vision_rows, std::int64_t(layout.anchors.size()));
  return build_fl2va(tags, target_of(layout.frames, layout.canvas), layout.anchors, times);
}

}  // namespace

std::vector<std::int64_t> keyframe_text_tags(std::int64_t text_rows, std::int64_t vision_rows,
                                             std::int64_t keyframes) {
  const std::int64_t shortest = keyframes * (kLabelRows + vision_rows);
  require(vision_rows >= 0 && text_rows >= shortest, "text of {} rows: {} keyframes take at least {}",
          text_rows, keyframes, shortest);
  std::vector<std::int64_t> tags;
  for (std::int64_t k = 0; k < keyframes; ++k) {
    tags.insert(tags.end(), kLabelRows, std::int64_t(Tag::text));
    tags.insert(tags.end(), std::size_t(vision_rows), std::int64_t(Tag::video));
  }
  tags.resize(std::size_t(text_rows), std::int64_t(Tag::text));
  return tags;
}

std::vector<std::string> layout_names() {
  std::vector<std::string> names;
  for (const auto& layout : table()) names.push_back(layout.name);
  return names;
}

PackedLayout named_layout(std::string_view name) {
  const auto found =
      std::find_if(table().begin(), table().end(), [&](const auto& l) { return l.name == name; });
  if (found == table().end()) fail("layout '{}': expected one of {}", name, fmt::join(layout_names(), ", "));
  return built(*found);
}

PackedLayout layout_of_rows(std::int64_t rows) {
  NamedLayout layout = table().front();  // tiny
  const std::int64_t shortest = std::int64_t(layout.anchors.size()) * (kLabelRows + layout.vision_rows),
                     others = built(layout).rows() - layout.text_rows;
  require(rows >= others + shortest, "{} packed rows: expected {} or more", rows, others + shortest);
  layout.text_rows = rows - others;
  return built(layout);
}

}  // namespace h3
