#include "harness/parallel/exchange_nccl.h"

#ifdef H3_HAVE_CUDA
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <thread>
#include <type_traits>

#include "kernels/cuda/device.h"

namespace h3 {
namespace {

// As nccl.h declares them since 2.7; no header is needed.
struct UniqueId {
  char internal[128];
};
using Communicator = struct ncclComm*;
using Result = int;
constexpr Result kSuccess = 0, kInProgress = 7;
constexpr int kInt8 = 0, kBfloat16 = 9, kSum = 0;

class Nccl {
 public:
  // Opened once, never closed.
  static const Nccl& library() {
    static const Nccl opened;
    return opened;
  }
  const std::string& missing() const { return missing_; }

  Result (*get_version)(int*) = nullptr;
  Result (*get_unique_id)(UniqueId*) = nullptr;
  Result (*init_rank)(Communicator*, int ranks, UniqueId, int rank) = nullptr;
  Result (*destroy)(Communicator) = nullptr;
  Result (*abort)(Communicator) = nullptr;
  Result (*async_error)(Communicator, Result*) = nullptr;
  const char* (*error_string)(Result) = nullptr;
  Result (*group_start)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*send)(const void*, std::size_t, int type, int to, Communicator, cudaStream_t) = nullptr;
  Result (*receive)(void*, std::size_t, int type, int from, Communicator, cudaStream_t) = nullptr;
  Result (*reduce_scatter)(const void*, void*, std::size_t, int type, int operation, Communicator,
                           cudaStream_t) = nullptr;

  void check(Result result, const std::string& what) const {
    if (result != kSuccess) fail("NCCL: {}: {}", what, error_string(result));
  }

 private:
  Nccl() {
    ::setenv("NCCL_NVLS_ENABLE", "0", 1);
    const char* file = std::getenv("H3_NCCL_LIBRARY");
    void* handle = ::dlopen(file ? file : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      missing_ = fmt::format("NCCL: {} (H3_NCCL_LIBRARY may name the file)", ::dlerror());
      return;
    }
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
      if (!function) missing_ = fmt::format("NCCL: the library has no {}", name);
    };
    load(get_version, "ncclGetVersion");
    load(get_unique_id, "ncclGetUniqueId");
    load(init_rank, "ncclCommInitRank");
    load(destroy, "ncclCommDestroy");
    load(abort, "ncclCommAbort");
    load(async_error, "ncclCommGetAsyncError");
    load(error_string, "ncclGetErrorString");
    load(group_start, "ncclGroupStart");
    load(group_end, "ncclGroupEnd");
    load(send, "ncclSend");
    load(receive, "ncclRecv");
    load(reduce_scatter, "ncclReduceScatter");
  }
  std::string missing_;
};

class Communicating : public NcclExchange {
 public:
  Communicating(int rank, MeetingPlace& place) : NcclExchange(rank, place), nccl_(Nccl::library()) {
    cuda::check(cudaSetDevice(rank), "taking the rank's GPU");
    if (const std::string why = why_no_nccl(ranks()); !why.empty()) fail("{}", why);
    UniqueId id{};
    if (rank == 0) nccl_.check(nccl_.get_unique_id(&id), "making an id");
    std::string text;
    for (const char byte : id.internal) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    // Everybody is here before NCCL is entered, and rank 0's id is everybody's.
    const std::string chosen = announce("NCCL's id", text).front();
    require(chosen.size() == text.size(), "NCCL's id of rank 0: {} digits, expected {}", chosen.size(),
            text.size());
    for (std::size_t i = 0; i < sizeof id.internal; ++i)
      id.internal[i] = char(std::stoi(chosen.substr(2 * i, 2), nullptr, 16));
    nccl_.check(nccl_.init_rank(&communicator_, ranks(), id, rank),
                fmt::format("rank {} of {}", rank, ranks()));
    greet_the_neighbour();
  }

  ~Communicating() override {
    if (!communicator_) return;
    // To destroy waits for the others, which may not be there any more after an error.
    if (std::uncaught_exceptions() > 0)
      nccl_.abort(communicator_);
    else
      nccl_.destroy(communicator_);
  }

  std::string version() const override {
    int number = 0;
    nccl_.check(nccl_.get_version(&number), "asking for the version");
    return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

  double seconds_of_reduce_scatter(std::int64_t elements) override {
    const std::int64_t own = std::max<std::int64_t>(1, elements / ranks());
    const Tensor from = cuda::allocate(DType::bf16, {own * ranks()});
    Tensor to = cuda::allocate(DType::bf16, {own});
    std::vector<double> seconds;
    for (int round = 0; round < 6; ++round) {  // the first one connects
      place_.meet(rank(), "reduce-scatter");
      const auto start = std::chrono::steady_clock::now();
      nccl_.check(nccl_.reduce_scatter(from.bytes(), to.bytes(), std::size_t(own), kBfloat16, kSum,
                                       communicator_, nullptr),
                  "reduce-scatter");
      finish("reduce-scatter");
      if (round > 0)
        seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    std::ranges::sort(seconds);
    return seconds[seconds.size() / 2];
  }

 protected:
  void move(const std::string& node, std::span<const Tensor> outgoing, std::span<Tensor> incoming) override {
    const std::vector<Tensor> out = on_gpu(outgoing), in = on_gpu(incoming);
    place_.meet(rank(), node);  // who does not come is named here, before NCCL waits for it
    send_and_receive(node, out, in);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i].empty() || incoming[i].device() == Device::cuda || int(i) == rank()) continue;
      const Tensor on_cpu = cuda::download(in[i]);
      std::memcpy(incoming[i].bytes(), on_cpu.bytes(), on_cpu.size_bytes());
    }
  }

 private:
  // Indices and positions lie on the CPU.
  std::vector<Tensor> on_gpu(std::span<const Tensor> parts) const {
    std::vector<Tensor> placed;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const bool as_it_is = parts[i].empty() || parts[i].device() == Device::cuda || int(i) == rank();
      placed.push_back(as_it_is ? parts[i] : cuda::upload(parts[i]));
    }
    return placed;
  }

  void send_and_receive(const std::string& node, std::span<const Tensor> out, std::span<const Tensor> in) {
    nccl_.check(nccl_.group_start(), node);
    for (int other = 0; other < ranks(); ++other) {
      if (other == rank()) continue;
      const Tensor &to = out[std::size_t(other)], &from = in[std::size_t(other)];
      if (!to.empty() && to.size_bytes() > 0)
        nccl_.check(nccl_.send(to.bytes(), to.size_bytes(), kInt8, other, communicator_, nullptr), node);
      if (!from.empty() && from.size_bytes() > 0)
        nccl_.check(nccl_.receive(const_cast<std::byte*>(from.bytes()), from.size_bytes(), kInt8, other,
                                  communicator_, nullptr),
                    node);
    }
    nccl_.check(nccl_.group_end(), node);
    finish(node);
  }

  // Waits for the stream and for NCCL's own errors; past the limit the communicator is given up.
  void finish(const std::string& node) {
    const auto deadline = std::chrono::steady_clock::now() + place_.limit();
    while (true) {
      const cudaError_t status = cudaStreamQuery(nullptr);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) cuda::check(status, "waiting for an exchange");
      Result error = kSuccess;
      nccl_.check(nccl_.async_error(communicator_, &error), node);
      const bool late = std::chrono::steady_clock::now() > deadline;
      if ((error == kSuccess || error == kInProgress) && !late) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        continue;
      }
      nccl_.abort(communicator_);
      communicator_ = nullptr;
      if (!late) nccl_.check(error, fmt::format("exchange '{}' on rank {}", node, rank()));
      fail("exchange '{}': rank {} waits for bytes since {} ms", node, rank(), place_.limit().count());
    }
  }

  // A number to the right, one from the left; a single rank is its own neighbour.
  void greet_the_neighbour() {
    Tensor mine(DType::i64, {1});
    mine.data<std::int64_t>()[0] = rank();
    const int right = (rank() + 1) % ranks(), left = (rank() + ranks() - 1) % ranks();
    const Tensor out = cuda::upload(mine), in = cuda::allocate(DType::i64, {1});
    nccl_.check(nccl_.group_start(), "greeting");
    nccl_.check(nccl_.send(out.bytes(), out.size_bytes(), kInt8, right, communicator_, nullptr), "greeting");
    nccl_.check(nccl_.receive(const_cast<std::byte*>(in.bytes()), in.size_bytes(), kInt8, left, communicator_,
                              nullptr),
                "greeting");
    nccl_.check(nccl_.group_end(), "greeting");
    finish("greeting");
    const std::int64_t heard = cuda::download(in).data<std::int64_t>()[0];
    require(heard == left, "NCCL: rank {} heard {} from rank {}", rank(), heard, left);
  }

  const Nccl& nccl_;
  Communicator communicator_ = nullptr;
};

}  // namespace

int gpu_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string why_no_nccl(int ranks) {
  if (const std::string& missing = Nccl::library().missing(); !missing.empty()) return missing;
  if (const int found = gpu_count(); found < ranks)
    return fmt::format("NCCL: {} GPUs for {} ranks", found, ranks);
  return cuda::why_unavailable();
}

std::unique_ptr<NcclExchange> nccl_exchange(int rank, MeetingPlace& place) {
  return std::make_unique<Communicating>(rank, place);
}

}  // namespace h3

#else

namespace h3 {

int gpu_count() { return 0; }
std::string why_no_nccl(int) { return "NCCL: this build has no CUDA toolkit"; }
std::unique_ptr<NcclExchange> nccl_exchange(int, MeetingPlace&) { fail("{}", why_no_nccl(1)); }

}  // namespace h3

#endif
