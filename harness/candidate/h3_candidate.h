/* The door for other people's kernels. A shared library that exports these functions is a candidate: the
 * suite runs any of its nodes in the place of the strict row, on the same inputs, in the same graph, against
 * the same record.
 *
 *   h3 replay --layout tiny --engine ./libmine.so               a transformer block at its real width
 *   h3 replay --layout tiny --backward --engine ./libmine.so    its gradients, too
 *   h3 fullmodel --engine ./libmine.so                          all nodes, both ways, at reduced widths
 *
 * Nodes that the library does not compute run as strict rows, so one kernel is enough to begin with; so does
 * the backward of a node whose forward alone is the library's. The report binds what is the library's as
 * `candidate`. Tensors are contiguous and row-major, all of an output has to be written. Widths below are
 * those of the released model; a call's tensors say what they are. kernels/<row>.h states the arithmetic that
 * the provider has. conformance/candidates/example.c is a library in C, example_cuda.cu one in CUDA.
 *
 * Nodes, their inputs and parameters in order, BF16 unless stated. S packed rows, L of them text, V video and
 * A audio; U distinct timesteps, T = 3 tags. `table` is (3 U, 32256), six parts of 5376: shift, scale, gate
 * of attention, then of the MLP; `index` (S) I64 is the table's row of every packed row.
 *
 * In a transformer block:
 *   adaln_projection          temb (U, 2688) FP32; weight (96768, 2688), bias (96768)  -> table
 *   norm1, norm2              x (S, 5376), table, index; weight (5376)                 -> (S, 5376)
 *   q_proj, k_proj, v_proj    x (S, 5376); weight (7168, 5376)                         -> (S, 7168)
 *   q_norm, k_norm            x (S, 7168); weight (128)                                -> (S, 56, 128)
 *   rope_q, rope_k            x (S, 56, 128), cos, sin (S, 96) FP32                    -> (S, 56, 128)
 *   attention                 q, k (S, 56, 128), v (S, 7168)                           -> (S, 7168)
 *   o_proj                    x (S, 7168); weight (5376, 7168)                         -> (S, 5376)
 *   residual_attn             hidden (S, 5376), branch (S, 5376), table, index         -> (S, 5376)
 *   ffn_gate_up, ffn_down     x; weight                                                -> (S, outputs)
 *   swiglu                    x (S, 28672)                                             -> (S, 14336)
 *   residual_mlp              hidden, branch, table, index                             -> (S, 5376)
 *
 * In a refiner block, on L rows, the same but for:
 *   refiner.norm1, refiner.norm2 x; weight                                                -> (L, 5376)
 *   refiner.attention         q, k (L, 56, 128), v (L, 7168)                           -> (L, 7168)
 *   refiner.residual_attn     hidden, branch                                           -> (L, 5376)
 *   refiner.residual_mlp      hidden, branch                                           -> (L, 5376)
 *
 * At the boundaries, which h3 fullmodel alone walks:
 *   timestep_sinusoid         timesteps (U) FP32                                       -> (U, 256) FP32
 *   rotary_cos, rotary_sin    positions (S, 3) FP64                                    -> (S, 96) FP32
 *   timestep_mlp              (U, 256); weight, bias, weight, bias, all FP32           -> (U, 2688) FP32
 *   video_in_proj             (V, 96); weight, bias, all FP32                          -> (V, 5376) FP32
 *   audio_in_proj             (A, 32); weight, bias, all FP32                          -> (A, 5376) FP32
 *   context_embedder          (L, 5120); weight, bias                                  -> (L, 5376)
 *   token_refiner.final_norm  (L, 5376); weight                                        -> (L, 5376)
 *   packing                   text, video FP32, audio FP32; their indices I64          -> (S, 5376)
 *   norm_out_table            temb FP32; weight, bias                                  -> (U, 10752)
 *   norm_out                  x (S, 5376), its table, index (S) I64; weight            -> (S, 5376)
 *   norm_out_fp32             (S, 5376)                                                -> (S, 5376) FP32
 *   video_out_proj            (S, 5376); weight, bias, all FP32                        -> (S, 96) FP32
 *   audio_out_proj            (S, 5376); weight, bias, all FP32                        -> (S, 32) FP32
 *   video_output              (S, 96) FP32, indices (V) I64                            -> (V, 96) FP32
 *   audio_output              (S, 32) FP32, indices (A) I64                            -> (A, 32) FP32
 *
 * Version 2 of the interface. A library of version 1 (the nodes of a transformer block, forward, on the CPU)
 * still loads.
 */
#ifndef H3_CANDIDATE_H
#define H3_CANDIDATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define H3_CANDIDATE_ABI 2

enum h3_dtype { H3_BF16 = 0, H3_FP32 = 1, H3_I64 = 2, H3_FP64 = 3 };

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
  struct h3_tensor output; /* every byte is 0xFF before the call */
  void* stream;            /* since version 2; with device memory a cudaStream_t, null the default one */
};

/* Gradients of a loss whose gradient at the node's output is `output_gradient`, of the output's dtype and
 * shape; each of the dtype and shape of what it belongs to, every byte 0xFF before the call. The gradient of
 * a table is zero in the parts that the node does not read. `data` is null where there is no gradient: of
 * indices, positions, timesteps, their sinusoid and the rotary tables. */
struct h3_backward_call {
  struct h3_call forward; /* what the node was given, and the output that its forward gave for it */
  struct h3_tensor output_gradient;
  const struct h3_tensor* input_gradient;     /* one for each input */
  const struct h3_tensor* parameter_gradient; /* one for each parameter */
};

enum { H3_FORWARD = 1, H3_BACKWARD = 2 };
enum { H3_CPU = 0, H3_CUDA = 1 };

int h3_candidate_abi(void);          /* returns H3_CANDIDATE_ABI */
const char* h3_candidate_name(void); /* one line, for the report */
/* Asked once for each node: 0, H3_FORWARD, or H3_FORWARD | H3_BACKWARD. */
int h3_candidate_computes(const char* node);
const char* h3_candidate_run(const struct h3_call* call); /* null, or one line why not */

/* Only in a library that computes a backward: null, or one line why not. */
const char* h3_candidate_backward(const struct h3_backward_call* call);

/* Only in a library whose kernels take device memory: returns H3_CUDA. Then tensors lie on the current CUDA
 * device, but for I64 and FP64 ones, which stay on the CPU; `stream` is a cudaStream_t on which the operands
 * are ready and what is launched is waited for; the rows around it are the strict kernels on the GPU. */
int h3_candidate_memory(void);

#ifdef __cplusplus
}
#endif

#endif
