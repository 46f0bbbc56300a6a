/* The door for other people's kernels. A shared library that exports these four functions is a candidate: the suite
 * runs any of its nodes in the place of the strict row, on the same inputs, in the same graph, against the same record.
 *
 *   h3 replay --layout tiny --engine ./libmine.so
 *
 * Nodes that the library does not compute run as strict rows on the CPU, so one kernel is enough to begin with. The
 * report binds a node of the library as `candidate`. Tensors lie in CPU memory, contiguous and row-major; a library
 * whose kernels run elsewhere copies. Forward only.
 *
 * Nodes of a transformer block (S packed rows, U distinct timesteps, T = 3 tags), their inputs and parameters in order,
 * BF16 unless stated; `table` is (3 U, 32256), six parts of 5376: shift, scale, gate of attention, then of the MLP;
 * `index` (S) i64 is the table's row of every packed row:
 *   adaln_projection          temb (U, 2688) FP32; weight (96768, 2688), bias (96768)            -> table
 *   norm1, norm2              x (S, 5376), table, index; weight (5376)                           -> (S, 5376)
 *   q_proj, k_proj, v_proj    x (S, 5376); weight (7168, 5376)                                   -> (S, 7168)
 *   q_norm, k_norm            x (S, 7168); weight (128)                                          -> (S, 56, 128)
 *   rope_q, rope_k            x (S, 56, 128), cos, sin (S, 96) FP32                              -> (S, 56, 128)
 *   attention                 q, k, v                                                            -> (S, 7168)
 *   o_proj                    x (S, 7168); weight (5376, 7168)                                   -> (S, 5376)
 *   residual_attn             hidden (S, 5376), branch (S, 5376), table, index                   -> (S, 5376)
 *   ffn_gate_up, ffn_down     x; weight                                                          -> (S, outputs)
 *   swiglu                    x (S, 43008)                                                       -> (S, 21504)
 *   residual_mlp              hidden, branch, table, index                                       -> (S, 5376)
 * Widths are those of the released model; a call's tensors say what they are. The arithmetic that the provider has is
 * stated in kernels/<row>.h.
 */
#ifndef H3_CANDIDATE_H
#define H3_CANDIDATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define H3_CANDIDATE_ABI 1

enum h3_dtype { H3_BF16 = 0, H3_FP32 = 1, H3_I64 = 2 };

struct h3_tensor {
  int32_t dtype; /* enum h3_dtype */
  int32_t extents;
  const int64_t* shape;
  void* data;
};

struct h3_call {
  const char* node; /* "residual_attn" */
  const char* row;  /* the RFC row: "adaln_gate_residual" */
  int32_t inputs;
  const struct h3_tensor* input;
  int32_t parameters;
  const struct h3_tensor* parameter;
  struct h3_tensor output; /* every byte is 0xFF before the call; all of it has to be written */
};

int h3_candidate_abi(void);           /* returns H3_CANDIDATE_ABI */
const char* h3_candidate_name(void);  /* one line, for the report */
int h3_candidate_computes(const char* node);
const char* h3_candidate_run(const struct h3_call* call); /* null, or one line why not */

#ifdef __cplusplus
}
#endif

#endif
