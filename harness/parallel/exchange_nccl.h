// Exchange through NCCL: one process and one GPU for each rank of a host, sends and receives of device
// buffers. The library is opened when it is used, so that nothing of NCCL is needed to build. NVLink
// multicast stays off (NCCL_NVLS_ENABLE=0): no operation here could use it, and it is not asked to set up.
#pragma once

#include <memory>
#include <string>

#include "harness/parallel/exchange_processes.h"

namespace h3 {

// Empty when NCCL can be used here by this many ranks; otherwise why not, one line: a build without a CUDA
// toolkit, no libnccl.so.2, fewer GPUs than ranks.
std::string why_no_nccl(int ranks);
int gpu_count();  // 0 without a driver

// Takes GPU `rank` of the process's GPUs: before anything else touches a GPU.
class NcclExchange : public ProcessExchange {
 public:
  using ProcessExchange::ProcessExchange;
  virtual std::string version() const = 0;  // "2.28.9"
  // What the usual way costs: the median seconds of a reduce-scatter of this many BF16 elements, which adds.
  virtual double seconds_of_reduce_scatter(std::int64_t elements) = 0;
};
std::unique_ptr<NcclExchange> nccl_exchange(int rank, MeetingPlace& place);

}  // namespace h3
