// A small fixed decoder that stands in for the provider's two autoencoders where their weights are not there.
// It makes pictures and sound of the right length out of every latent, so that a comparison has something to
// measure; they look like nothing. Everything it decodes is labelled with its name.
#pragma once

#include "harness/generation/generation_state.h"
#include "harness/generation/media.h"

namespace h3 {

inline constexpr const char* kStandInDecoder = "stand-in decoder 1, not the provider's autoencoder";

// Pictures of a quarter of the height and width. A latent frame becomes the pixel frames of its span (1, 4,
// 4, 4, 4, 1, ...), blended from the latent frame before; a latent, 4 x 4 pixels, each a fixed mixture of its
// channels squeezed into [0, 1]. An audio latent becomes 800 samples of 32 overtones of 40 Hz.
Media decode_stand_in(const GenerationContract& contract, const GenerationState& state);

}  // namespace h3
