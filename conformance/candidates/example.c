/* An example of a candidate, in plain C: the residuals of a block, gated with the provider's two roundings,
 *
 *   out = R(hidden + R(gate * branch))
 *
 * their backward, the refiner's residuals, and a boundary, norm_out_fp32. Built again with one of these
 * defined it is wrong, as real kernels have been:
 *
 *   FUSED     leaves out the inner rounding: no tolerance sees it, the provider's bytes show it
 *   UNGATED   the gradient of the branch forgets its gate
 *   CUT       the refiner's residuals are cut to BF16, not rounded
 */
#include <stdlib.h>
#include <string.h>

#include "harness/candidate/h3_candidate.h"

#ifndef VERSION
#define VERSION H3_CANDIDATE_ABI
#endif

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

static uint16_t rounded_in_the_refiner(float value) {
#ifdef CUT
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return (uint16_t)(bits >> 16);
#else
  return rounded(value);
#endif
}

int h3_candidate_abi(void) { return VERSION; }

const char* h3_candidate_name(void) {
#if defined(FUSED)
  return "example: residuals, fused";
#elif defined(UNGATED)
  return "example: residuals, a gradient without its gate";
#elif defined(CUT)
  return "example: residuals, cut in the refiner";
#else
  return "example: residuals";
#endif
}

static int is_gated(const char* node) {
  return strcmp(node, "residual_attn") == 0 || strcmp(node, "residual_mlp") == 0;
}

int h3_candidate_computes(const char* node) {
  if (is_gated(node) || strcmp(node, "norm_out_fp32") == 0) return H3_FORWARD | H3_BACKWARD;
  if (strcmp(node, "refiner.residual_attn") == 0 || strcmp(node, "refiner.residual_mlp") == 0)
    return H3_FORWARD;
  return 0;
}

static int64_t elements(const struct h3_tensor* tensor) {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor->extents; ++i) count *= tensor->shape[i];
  return count;
}

/* The gate of row s: a part of its row of the modulation table. */
static int64_t gate_at(const struct h3_call* call, int64_t s) {
  enum { kGateOfAttention = 2, kGateOfMlp = 5 };
  const int64_t cols = call->input[0].shape[1], width = call->input[2].shape[1];
  const int64_t part = strcmp(call->node, "residual_attn") == 0 ? kGateOfAttention : kGateOfMlp;
  return ((const int64_t*)call->input[3].data)[s] * width + part * cols;
}

const char* h3_candidate_run(const struct h3_call* call) {
  uint16_t* out = call->output.data;
  const uint16_t* hidden = call->input[0].data;
  if (strcmp(call->node, "norm_out_fp32") == 0) {
    for (int64_t i = 0; i < elements(&call->output); ++i) ((float*)call->output.data)[i] = widened(hidden[i]);
    return NULL;
  }
  const uint16_t* branch = call->input[1].data;
  if (call->inputs == 2) {
    if (call->output.dtype != H3_BF16) return "expected BF16";
    for (int64_t i = 0; i < elements(&call->output); ++i)
      out[i] = rounded_in_the_refiner(widened(hidden[i]) + widened(branch[i]));
    return NULL;
  }
  const int64_t rows = call->input[0].shape[0], cols = call->input[0].shape[1];
  for (int64_t s = 0; s < rows; ++s) {
    const uint16_t* gate = (const uint16_t*)call->input[2].data + gate_at(call, s);
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t i = s * cols + c;
      float gated = widened(gate[c]) * widened(branch[i]);
#ifndef FUSED
      gated = widened(rounded(gated));
#endif
      out[i] = rounded(widened(hidden[i]) + gated);
    }
  }
  return NULL;
}

/* The sum of `count` terms as kernels/numerics/row_sum.h states it; -0 stands for a term that is not there.
 */
static float sum_of(float* term, int64_t count) {
  enum { kGroup = 8, kFanIn = 128 };
  if (count == 0) return 0;
  do {
    int64_t runs = 0;
    for (int64_t first = 0; first < count; first += kFanIn) {
      const int64_t end = first + kFanIn < count ? first + kFanIn : count;
      float sum = -0.0f;
      for (int64_t at = first; at < end; at += kGroup) {
        float t[kGroup];
        for (int64_t i = 0; i < kGroup; ++i) t[i] = at + i < end ? term[at + i] : -0.0f;
        sum += ((t[0] + t[1]) + (t[2] + t[3])) + ((t[4] + t[5]) + (t[6] + t[7]));
      }
      term[runs++] = sum;
    }
    count = runs;
  } while (count > 1);
  return term[0];
}

const char* h3_candidate_backward(const struct h3_backward_call* call) {
  const struct h3_call* node = &call->forward;
  if (strcmp(node->node, "norm_out_fp32") == 0) {
    const float* dy = call->output_gradient.data;
    uint16_t* dx = call->input_gradient[0].data;
    for (int64_t i = 0; i < elements(&call->output_gradient); ++i) dx[i] = rounded(dy[i]);
    return NULL;
  }
  const int64_t rows = node->input[0].shape[0], cols = node->input[0].shape[1];
  const uint16_t *dy = call->output_gradient.data, *branch = node->input[1].data;
  const int64_t* index = node->input[3].data;
  uint16_t *dbranch = call->input_gradient[1].data, *dtable = call->input_gradient[2].data;
  memcpy(call->input_gradient[0].data, dy, (size_t)(rows * cols) * sizeof *dy);
  memset(dtable, 0, (size_t)elements(&node->input[2]) * sizeof *dtable);
  for (int64_t s = 0; s < rows; ++s)
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t i = s * cols + c;
#ifdef UNGATED
      dbranch[i] = dy[i];
#else
      const uint16_t gate = ((const uint16_t*)node->input[2].data)[gate_at(node, s) + c];
      dbranch[i] = rounded(widened(gate) * widened(dy[i]));
#endif
    }
  float* term = malloc((size_t)rows * sizeof *term);
  if (!term) return "out of memory";
  for (int64_t of = 0; of < node->input[2].shape[0]; ++of) { /* every row of the table has its own rows */
    int64_t first = -1;
    for (int64_t s = 0; s < rows && first < 0; ++s)
      if (index[s] == of) first = s;
    for (int64_t c = 0; c < cols && first >= 0; ++c) {
      int64_t count = 0;
      for (int64_t s = first; s < rows; ++s)
        if (index[s] == of)
          term[count++] = widened(rounded(widened(dy[s * cols + c]) * widened(branch[s * cols + c])));
      dtable[gate_at(node, first) + c] = rounded(sum_of(term, count));
    }
  }
  free(term);
  return NULL;
}
