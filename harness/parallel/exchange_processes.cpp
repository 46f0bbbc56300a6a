#include "harness/parallel/exchange_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "model/atomic_file.h"

#ifdef H3_HAVE_CUDA
#include "kernels/cuda/device.h"
#endif

namespace h3 {

// A rank can be one meeting ahead of another one that still looks at the places of the last: two are kept.
struct MeetingPlace::Slot {
  std::int64_t meetings;
  std::int64_t failed;
  char places[2][56];
};

namespace {

constexpr auto kGrace = std::chrono::seconds(2);  // for the others, when one rank has failed
constexpr auto kPause = std::chrono::microseconds(50);

std::string meetings_file(const std::string& folder) { return folder + "/meetings"; }

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(bool(file), "{}: cannot read", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class FileExchange : public ProcessExchange {
 public:
  using ProcessExchange::ProcessExchange;

 protected:
  void move(const std::string& node, std::span<const Tensor> outgoing, std::span<Tensor> incoming) override {
    ++moves_;
    for (int to = 0; to < ranks(); ++to) {
      Tensor part = outgoing[std::size_t(to)];
      if (to == rank() || part.empty()) continue;
#ifdef H3_HAVE_CUDA
      if (part.device() == Device::cuda) part = cuda::download(part);
#endif
      write_file(path(rank(), to), {reinterpret_cast<const char*>(part.bytes()), part.size_bytes()});
    }
    place_.meet(rank(), node);
    for (int from = 0; from < ranks(); ++from)
      if (from != rank() && !incoming[std::size_t(from)].empty())
        receive(node, from, incoming[std::size_t(from)]);
    place_.meet(rank(), node);
    for (int to = 0; to < ranks(); ++to) std::filesystem::remove(path(rank(), to));
  }

 private:
  std::string path(int from, int to) const {
    return fmt::format("{}/part.{}.{}.{}", place_.folder(), moves_, from, to);
  }

  void receive(const std::string& node, int from, Tensor& part) const {
    const std::string bytes = text_of(path(from, rank()));
    require(bytes.size() == part.size_bytes(), "exchange '{}': rank {} sends {} bytes, rank {} expects {}",
            node, from, bytes.size(), rank(), part.size_bytes());
    Tensor on_cpu = part.device() == Device::cpu ? part : Tensor(part.dtype(), part.shape());
    std::memcpy(on_cpu.bytes(), bytes.data(), bytes.size());
#ifdef H3_HAVE_CUDA
    if (part.device() == Device::cuda) cuda::copy(cuda::upload(on_cpu), part);
#endif
  }

  std::int64_t moves_ = 0;
};

}  // namespace

void MeetingPlace::create(const std::string& folder, int ranks) {
  write_file(meetings_file(folder), std::string(sizeof(Slot) * std::size_t(ranks), '\0'));
}

MeetingPlace::MeetingPlace(std::string folder, int ranks, TimeLimit limit)
    : folder_(std::move(folder)), ranks_(ranks), limit_(limit) {
  const std::string path = meetings_file(folder_);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  require(file >= 0, "{}: {}", path, std::strerror(errno));
  const std::size_t bytes = sizeof(Slot) * std::size_t(ranks);
  std::error_code unreadable;
  const bool fits = std::filesystem::file_size(path, unreadable) == bytes;
  void* memory = fits ? ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  ::close(file);
  require(memory != MAP_FAILED, "{}: expected {} bytes for {} ranks", path, bytes, ranks);
  slots_ = static_cast<Slot*>(memory);
}

MeetingPlace::~MeetingPlace() { ::munmap(slots_, sizeof(Slot) * std::size_t(ranks_)); }

MeetingPlace::Slot& MeetingPlace::slot(int rank) const { return slots_[rank]; }

void MeetingPlace::fail(int rank) { std::atomic_ref(slot(rank).failed).store(1); }

std::string MeetingPlace::last(int rank) const {
  const std::int64_t meetings = std::atomic_ref(slot(rank).meetings).load();
  return meetings == 0 ? "before its first exchange"
                       : fmt::format("after exchange '{}'", slot(rank).places[meetings % 2]);
}

void MeetingPlace::meet(int rank, const std::string& place) {
  Slot& mine = slot(rank);
  const std::int64_t meeting = mine.meetings + 1;
  char* name = mine.places[meeting % 2];
  name[place.copy(name, sizeof mine.places[0] - 1)] = '\0';
  std::atomic_ref(mine.meetings).store(meeting);

  const auto deadline = std::chrono::steady_clock::now() + limit_;
  while (true) {
    std::vector<int> missing;
    for (int other = 0; other < ranks_; ++other) {
      if (std::atomic_ref(slot(other).failed).load() != 0)
        h3::fail("exchange '{}': rank {} has failed", place, other);
      if (std::atomic_ref(slot(other).meetings).load() < meeting) missing.push_back(other);
    }
    if (missing.empty()) break;
    if (std::chrono::steady_clock::now() > deadline)
      h3::fail("exchange '{}': {} not come within {} ms, last seen {}", place, missing_ranks(missing),
               limit_.count(), last(missing.front()));
    std::this_thread::sleep_for(kPause);
  }
  for (int other = 0; other < ranks_; ++other)
    require(std::strcmp(slot(other).places[meeting % 2], name) == 0,
            "ranks came to different exchanges: rank {} at '{}', rank {} at '{}'", rank, name, other,
            slot(other).places[meeting % 2]);
}

std::vector<std::string> MeetingPlace::announce(int rank, const std::string& what, const std::string& text) {
  const std::int64_t number = slot(rank).meetings;
  const auto path = [&](int speaker) { return fmt::format("{}/said.{}.{}", folder_, number, speaker); };
  write_file(path(rank), text);
  meet(rank, what);
  std::vector<std::string> texts;
  for (int speaker = 0; speaker < ranks_; ++speaker) texts.push_back(text_of(path(speaker)));
  return texts;
}

std::unique_ptr<Exchange> file_exchange(int rank, MeetingPlace& place) {
  return std::make_unique<FileExchange>(rank, place);
}

std::vector<int> launch_ranks(const std::vector<std::string>& command, MeetingPlace& place, TimeLimit limit) {
  std::vector<pid_t> running;
  std::vector<int> codes(std::size_t(place.ranks()), 0);
  for (int rank = 0; rank < place.ranks(); ++rank) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--rank", std::to_string(rank)});
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const pid_t child = ::fork();
    require(child >= 0, "rank {}: cannot start a process: {}", rank, std::strerror(errno));
    if (child == 0) {
      ::execv(arguments[0], arguments.data());
      ::_exit(127);
    }
    running.push_back(child);
  }

  auto deadline = std::chrono::steady_clock::now() + limit;
  std::size_t left = running.size();
  std::string late;
  while (left > 0) {
    for (std::size_t rank = 0; rank < running.size(); ++rank) {
      int status = 0;
      if (running[rank] < 0 || ::waitpid(running[rank], &status, WNOHANG) != running[rank]) continue;
      running[rank] = -1;
      --left;
      codes[rank] = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
      if (codes[rank] == 0) continue;
      place.fail(int(rank));
      deadline = std::min(deadline, std::chrono::steady_clock::now() + kGrace);
    }
    if (late.empty() && left > 0 && std::chrono::steady_clock::now() > deadline)
      for (std::size_t rank = 0; rank < running.size(); ++rank)
        if (running[rank] >= 0) {
          late += fmt::format("{}rank {} {}", late.empty() ? "" : ", ", rank, place.last(int(rank)));
          ::kill(running[rank], SIGKILL);
        }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  require(late.empty(), "killed, because a rank failed or {} ms were over: {}", limit.count(), late);
  return codes;
}

}  // namespace h3
