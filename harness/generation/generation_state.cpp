#include "harness/generation/generation_state.h"

#include <algorithm>

#include "harness/full_model/full_model.h"
#include "kernels/ode_step.h"
#include "kernels/video_patch_pack_unpack.h"
#include "model/digest.h"
#include "model/provider_normal.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

Tensor packed(const Tensor& latents, const Config& config) {
  const kernels::Patch patch = {config.patch_t, config.patch_h, config.patch_w};
  const std::int64_t count = latents.elements() / config.video_row_dim();
  Tensor rows(DType::fp32, {1, count, config.video_row_dim()});
  kernels::video_patch_pack(latents, patch, rows);
  return rows.reshaped({count, config.video_row_dim()});
}

// The provider's scale_noise: t x + (1 - t) noise, every operation rounded to FP32.
Tensor mixed(const Tensor& clean, const Tensor& noise, float t) {
  Tensor result(DType::fp32, clean.shape());
  const float rest = 1.0f - t;
  for (std::int64_t i = 0; i < clean.elements(); ++i) {
    const float of_clean = t * clean.data<float>()[i], of_noise = rest * noise.data<float>()[i];
    result.data<float>()[i] = of_clean + of_noise;
  }
  return result;
}

Tensor joined(const std::vector<Tensor>& parts) {
  std::int64_t rows = 0;
  for (const Tensor& part : parts) rows += part.rows();
  Tensor all(DType::fp32, {rows, parts.front().cols()});
  std::byte* next = all.bytes();
  for (const Tensor& part : parts) next = std::ranges::copy(part.byte_span(), next).out;
  return all;
}

Tensor scalar(float value) {
  Tensor tensor(DType::fp32, {1});
  tensor.data<float>()[0] = value;
  return tensor;
}

Tensor stepped(const Schedule& schedule, std::int64_t evaluation, const Tensor& rows, const Tensor& velocity,
               std::int64_t conditions) {
  require(velocity.shape() == rows.shape(), "euler step: velocity is {}, expected {}",
          to_string(velocity.shape()), to_string(rows.shape()));
  const auto i = std::size_t(evaluation);
  const std::int64_t generated = rows.rows() - conditions;
  Tensor next = rows.clone(), next_generated = next.row_range(conditions, generated);
  kernels::ode_step(rows.row_range(conditions, generated), velocity.row_range(conditions, generated),
                    scalar(schedule.timesteps[i]), scalar(schedule.sigmas[i]), scalar(schedule.sigmas[i + 1]),
                    next_generated);
  return next;
}

}  // namespace

std::vector<Tensor> keyframe_latents(const GenerationContract& contract) {
  const LatentGrid grid = contract.target().video;
  std::vector<Tensor> latents;
  for (std::size_t k = 0; k < contract.keyframes.size(); ++k)
    latents.push_back(synthetic_activation(contract.condition_seed, fmt::format("keyframe_latents.{}", k),
                                           {1, contract.config.in_channels, 1, grid.height, grid.width},
                                           DType::fp32));
  return latents;
}

Tensor text_condition(const GenerationContract& contract) {
  return synthetic_activation(contract.condition_seed, "text_rows",
                              {contract.text_rows, contract.config.text_dim}, DType::bf16);
}

GenerationState initial_state(const GenerationContract& contract, std::uint64_t seed,
                              const std::vector<Tensor>& keyframes) {
  const Target target = contract.target();
  const LatentGrid grid = target.video;
  const std::int64_t channels = contract.config.in_channels;
  ProviderGenerator generator(seed);
  std::vector<Tensor> video;
  for (const Tensor& clean : keyframes) {
    const Tensor noise = generator.normal(clean.shape());
    video.push_back(packed(mixed(clean, noise, float(kConditionTime)), contract.config));
  }
  const Tensor latents = generator.normal({1, channels, grid.frames, grid.height, grid.width});
  video.push_back(packed(latents, contract.config));
  return {joined(video),
          generator.normal({kAudioChannels * target.audio_latents, contract.config.audio_in_channels})};
}

Values evaluation_inputs(const PackedLayout& layout, const GenerationState& state, const Tensor& text_rows) {
  Values inputs = layout_inputs(layout);
  inputs["video_rows"] = state.video_rows;
  inputs["audio_rows"] = state.audio_rows;
  inputs["text_rows"] = text_rows;
  return inputs;
}

std::string sha256_of(const Values& values) {
  Sha256 hash;
  for (const auto& [name, tensor] : values) {
    hash.update(fmt::format("{} {} {}\n", name, name_of(tensor.dtype()), to_string(tensor.shape())));
    hash.update(tensor.byte_span());
  }
  return hash.hex();
}

GenerationState euler_step(const GenerationContract& contract, const PackedLayout& layout,
                           std::int64_t evaluation, const GenerationState& state, const Values& velocity) {
  return {stepped(contract.video_schedule(), evaluation, state.video_rows, velocity.at("video_output"),
                  layout.condition_video_rows),
          stepped(contract.audio_schedule(), evaluation, state.audio_rows, velocity.at("audio_output"),
                  layout.condition_audio_rows)};
}

}  // namespace h3
