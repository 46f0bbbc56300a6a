/* An example of a candidate: the gated residuals of a block, in plain C, with the provider's two roundings,
 *
 *   out = R(hidden + R(gate * branch))
 *
 * Built a second time with FUSED defined it leaves out the inner one, as a fused kernel would: a fault that no
 * tolerance sees and that the provider's bytes show.
 */
#include <string.h>

#include "harness/candidate/h3_candidate.h"

static float widened(uint16_t word) {
  const uint32_t bits = (uint32_t)word << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint16_t rounded(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

int h3_candidate_abi(void) { return H3_CANDIDATE_ABI; }

const char* h3_candidate_name(void) {
#ifdef FUSED
  return "example: gated residuals, fused";
#else
  return "example: gated residuals";
#endif
}

int h3_candidate_computes(const char* node) {
  return strcmp(node, "residual_attn") == 0 || strcmp(node, "residual_mlp") == 0;
}

const char* h3_candidate_run(const struct h3_call* call) {
  enum { kGateOfAttention = 2, kGateOfMlp = 5 };
  if (call->inputs != 4) return "expected hidden, branch, table and index: only gated residuals are computed here";
  const int64_t rows = call->input[0].shape[0], cols = call->input[0].shape[1], width = call->input[2].shape[1];
  const int64_t part = strcmp(call->node, "residual_attn") == 0 ? kGateOfAttention : kGateOfMlp;
  const uint16_t *hidden = call->input[0].data, *branch = call->input[1].data, *table = call->input[2].data;
  const int64_t* index = call->input[3].data;
  uint16_t* out = call->output.data;
  for (int64_t s = 0; s < rows; ++s)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t i = s * cols + c;
      float gated = widened(table[index[s] * width + part * cols + c]) * widened(branch[i]);
#ifndef FUSED
      gated = widened(rounded(gated));
#endif
      out[i] = rounded(widened(hidden[i]) + gated);
    }
  return NULL;
}
