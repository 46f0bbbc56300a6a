// An example of a candidate in CUDA: the gated residuals of a transformer block, with the provider's two
// roundings,
//
//   out = R(hidden + R(gate * branch))
//
// and a boundary, norm_out_fp32, all of them forward and backward. Tensors lie on the GPU; the index of the
// table alone stays on the CPU and is copied on the call's stream. Built again with one of these defined it
// is wrong, as real kernels have been:
//
//   FUSED          leaves out the inner rounding: no tolerance sees it, the provider's bytes show it
//   UNGATED        the gradient of the branch forgets its gate
//   THREADS=2048   more than a block can have: nothing is launched, and the library says so
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "harness/candidate/h3_candidate.h"

#ifndef THREADS
#define THREADS 256
#endif

namespace {

using Word = __nv_bfloat16;

__device__ float widened(Word word) { return __bfloat162float(word); }
__device__ Word rounded(float value) { return __float2bfloat16_rn(value); }

// ---- kernels: a block of threads for every row, the next one where there are more rows than blocks ----

// Where the gate of a packed row lies: a part of its row of the modulation table.
struct Gate {
  const int64_t* index;
  int64_t width, first;  // of the table; of the part

  __device__ int64_t at(int64_t row) const { return index[row] * width + first; }
};

__global__ void add_gated(const Word* hidden, const Word* branch, const Word* table, Gate gate, int64_t rows,
                          int64_t cols, Word* out) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
      const int64_t i = row * cols + c;
      float gated = widened(table[gate.at(row) + c]) * widened(branch[i]);
#ifndef FUSED
      gated = widened(rounded(gated));
#endif
      out[i] = rounded(widened(hidden[i]) + gated);
    }
}

__global__ void branch_gradient(const Word* dy, const Word* table, Gate gate, int64_t rows, int64_t cols,
                                Word* dbranch) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
      const int64_t i = row * cols + c;
      float gradient = widened(dy[i]);
#ifndef UNGATED
      gradient = widened(table[gate.at(row) + c]) * gradient;
#endif
      dbranch[i] = rounded(gradient);
    }
}

// A sum in the order that kernels/numerics/row_sum.h states: eight terms as a tree, sixteen of these one
// after the other, and 128 such sums likewise. -0 stands for a term that is not there.
struct Run {
  float term[8], sum = -0.0f;
  int terms = 0;

  __device__ void add(float next) {
    term[terms++ % 8] = next;
    if (terms % 8 == 0)
      sum += ((term[0] + term[1]) + (term[2] + term[3])) + ((term[4] + term[5]) + (term[6] + term[7]));
  }
  __device__ float taken() {
    while (terms % 8 != 0) add(-0.0f);
    const float all = sum;
    sum = -0.0f, terms = 0;
    return all;
  }
};

struct RowSum {
  Run run[3];  // of up to 128^3 terms

  __device__ void add(float term) {
    run[0].add(term);
    for (int i = 0; i < 2 && run[i].terms == 128; ++i) run[i + 1].add(run[i].taken());
  }
  __device__ float taken() {
    for (int i = 0; i < 2; ++i)
      if (run[i].terms > 0) run[i + 1].add(run[i].taken());
    return run[2].terms > 0 ? run[2].taken() : 0;
  }
};

// Here a row is one of the table's: each has packed rows of its own, and adds up over them.
__global__ void gate_gradient(const Word* dy, const Word* branch, Gate gate, int64_t rows, int64_t cols,
                              int64_t table_rows, Word* dtable) {
  for (int64_t of = blockIdx.x; of < table_rows; of += gridDim.x)
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
      RowSum sum;
      for (int64_t row = 0; row < rows; ++row)
        if (gate.index[row] == of)
          sum.add(widened(rounded(widened(dy[row * cols + c]) * widened(branch[row * cols + c]))));
      dtable[of * gate.width + gate.first + c] = rounded(sum.taken());
    }
}

__global__ void widen(const Word* in, int64_t rows, int64_t cols, float* out) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x)
      out[row * cols + c] = widened(in[row * cols + c]);
}

__global__ void narrow(const float* in, int64_t rows, int64_t cols, Word* out) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
    for (int64_t c = threadIdx.x; c < cols; c += blockDim.x)
      out[row * cols + c] = rounded(in[row * cols + c]);
}

// ---- calls ----

unsigned blocks(int64_t rows) { return unsigned(std::clamp<int64_t>(rows, 1, 65535)); }

// Null, or why something since the last question was refused.
const char* refused() {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? nullptr : cudaGetErrorString(status);
}

template <class T>
T* data(const h3_tensor& tensor) {
  return static_cast<T*>(tensor.data);
}

// A copy on the GPU of a tensor that stays on the CPU. It is freed in the order of the stream, after the
// kernels that read it.
class OnGpu {
 public:
  OnGpu(const h3_tensor& index, cudaStream_t stream) : stream_(stream) {
    const size_t bytes = size_t(index.shape[0]) * sizeof(int64_t);
    if (cudaMallocAsync(&memory_, bytes, stream) == cudaSuccess)
      cudaMemcpyAsync(memory_, index.data, bytes, cudaMemcpyHostToDevice, stream);
  }
  OnGpu(const OnGpu&) = delete;
  ~OnGpu() {
    if (memory_) cudaFreeAsync(memory_, stream_);
  }

  const int64_t* data() const { return static_cast<const int64_t*>(memory_); }

 private:
  cudaStream_t stream_;
  void* memory_ = nullptr;
};

bool is_gated(std::string_view node) { return node == "residual_attn" || node == "residual_mlp"; }
bool is_widening(std::string_view node) { return node == "norm_out_fp32"; }

Gate gate_of(const h3_call& call, const OnGpu& index) {
  constexpr int64_t kGateOfAttention = 2, kGateOfMlp = 5;
  const int64_t part = call.node == std::string_view("residual_attn") ? kGateOfAttention : kGateOfMlp;
  return {index.data(), call.input[2].shape[1], part * call.input[0].shape[1]};
}

}  // namespace

int h3_candidate_abi() { return H3_CANDIDATE_ABI; }
int h3_candidate_memory() { return H3_CUDA; }

const char* h3_candidate_name() {
#if defined(FUSED)
  return "example in CUDA: residuals, fused";
#elif defined(UNGATED)
  return "example in CUDA: residuals, a gradient without its gate";
#else
  return "example in CUDA: residuals";
#endif
}

int h3_candidate_computes(const char* node) {
  return is_gated(node) || is_widening(node) ? H3_FORWARD | H3_BACKWARD : 0;
}

const char* h3_candidate_run(const h3_call* call) {
  const auto stream = static_cast<cudaStream_t>(call->stream);
  const h3_tensor &hidden = call->input[0], &out = call->output;
  const int64_t rows = hidden.shape[0], cols = hidden.shape[1];
  if (is_widening(call->node)) {
    widen<<<blocks(rows), THREADS, 0, stream>>>(data<Word>(hidden), rows, cols, data<float>(out));
    return refused();
  }
  const h3_tensor &branch = call->input[1], &table = call->input[2];
  const OnGpu index(call->input[3], stream);
  if (const char* why = refused()) return why;
  add_gated<<<blocks(rows), THREADS, 0, stream>>>(data<Word>(hidden), data<Word>(branch), data<Word>(table),
                                                  gate_of(*call, index), rows, cols, data<Word>(out));
  return refused();
}

const char* h3_candidate_backward(const h3_backward_call* call) {
  const h3_call& node = call->forward;
  const auto stream = static_cast<cudaStream_t>(node.stream);
  const h3_tensor &dy = call->output_gradient, &dhidden = call->input_gradient[0];
  const int64_t rows = dy.shape[0], cols = dy.shape[1];
  if (is_widening(node.node)) {
    narrow<<<blocks(rows), THREADS, 0, stream>>>(data<float>(dy), rows, cols, data<Word>(dhidden));
    return refused();
  }
  const h3_tensor &branch = node.input[1], &table = node.input[2];
  const h3_tensor &dbranch = call->input_gradient[1], &dtable = call->input_gradient[2];
  const int64_t table_rows = table.shape[0];
  const OnGpu index(node.input[3], stream);
  if (const char* why = refused()) return why;
  const Gate gate = gate_of(node, index);

  const size_t words = size_t(rows * cols), table_words = size_t(table_rows * table.shape[1]);
  cudaMemcpyAsync(dhidden.data, dy.data, words * sizeof(Word), cudaMemcpyDeviceToDevice, stream);
  cudaMemsetAsync(dtable.data, 0, table_words * sizeof(Word), stream);
  branch_gradient<<<blocks(rows), THREADS, 0, stream>>>(data<Word>(dy), data<Word>(table), gate, rows, cols,
                                                        data<Word>(dbranch));
  gate_gradient<<<blocks(table_rows), THREADS, 0, stream>>>(data<Word>(dy), data<Word>(branch), gate, rows,
                                                            cols, table_rows, data<Word>(dtable));
  return refused();
}
