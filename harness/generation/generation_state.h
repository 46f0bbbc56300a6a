// A request between two evaluations: the packed rows of both modalities. Everything starts on the CPU: noise
// from the provider's generator, conditions from functions of (seed, name, index).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/execution/block_inputs.h"
#include "model/generation_contract.h"

namespace h3 {

struct GenerationState {
  Tensor video_rows, audio_rows;  // FP32 on the CPU, conditions first: they enter every evaluation unchanged
};

// (1,24,1,h,w) FP32 of each keyframe, what the video VAE would have encoded.
std::vector<Tensor> keyframe_latents(const GenerationContract& contract);

// (L, text_dim) BF16, what the text encoder would have said.
Tensor text_condition(const GenerationContract& contract);

// The draws of a request in the provider's order: one per keyframe, which is mixed with it at time 0.999,
// then the video as latents, then the audio as rows.
GenerationState initial_state(const GenerationContract& contract, std::uint64_t seed,
                              const std::vector<Tensor>& keyframes);

// What the model is given; `layout` at the evaluation's times.
Values evaluation_inputs(const PackedLayout& layout, const GenerationState& state, const Tensor& text_rows);

// SHA-256 over name, dtype, shape and bytes of each.
std::string sha256_of(const Values& values);

// Both modalities, each by its own schedule; `velocity` as the model gives it, rows of conditions ignored.
GenerationState euler_step(const GenerationContract& contract, const PackedLayout& layout,
                           std::int64_t evaluation, const GenerationState& state, const Values& velocity);

}  // namespace h3
