// Launches recorded once as a CUDA graph and replayed without the host in between. Only in builds with a CUDA
// toolkit.
#pragma once

#include <functional>

#include "kernels/cuda/stream.h"

struct CUevent_st;
struct CUgraphExec_st;

namespace h3 {

class CudaGraph {
 public:
  // `launch` is recorded `repeats` times on a stream of the recording's own; nothing runs yet.
  explicit CudaGraph(const std::function<void(Stream)>& launch, int repeats = 1);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;

  void run() const;             // on the default stream, and waits
  double microseconds() const;  // the same, on the GPU's clock, of one repeat

 private:
  int repeats_;
  CUgraphExec_st* replay_ = nullptr;
  CUevent_st *start_ = nullptr, *stop_ = nullptr;
};

}  // namespace h3
