#ifdef H3_HAVE_CUDA
#include "harness/execution/cuda_graph.h"

#include <cuda_runtime.h>

#include "kernels/cuda/device.h"

namespace h3 {

using cuda::check;

CudaGraph::CudaGraph(const std::function<void(Stream)>& launch, int repeats) : repeats_(repeats) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  check(cudaStreamCreate(&stream), "creating a stream");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "recording launches");
  for (int i = 0; i < repeats; ++i) launch(stream);
  check(cudaStreamEndCapture(stream, &graph), "recording launches");
  check(cudaGraphInstantiate(&replay_, graph, 0), "recording launches");
  check(cudaGraphDestroy(graph), "recording launches");
  check(cudaStreamDestroy(stream), "recording launches");
  check(cudaEventCreate(&start_), "creating an event");
  check(cudaEventCreate(&stop_), "creating an event");
}

CudaGraph::~CudaGraph() {
  cudaEventDestroy(start_);
  cudaEventDestroy(stop_);
  cudaGraphExecDestroy(replay_);
}

void CudaGraph::run() const { microseconds(); }

double CudaGraph::microseconds() const {
  check(cudaEventRecord(start_, nullptr), "timing");
  check(cudaGraphLaunch(replay_, nullptr), "timing");
  check(cudaEventRecord(stop_, nullptr), "timing");
  check(cudaEventSynchronize(stop_), "timing");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start_, stop_), "timing");
  return 1000.0 * milliseconds / repeats_;
}

}  // namespace h3
#endif
