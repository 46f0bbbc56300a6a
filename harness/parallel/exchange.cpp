#include "harness/parallel/exchange.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#ifdef H3_HAVE_CUDA
#include "kernels/cuda/device.h"
#endif

namespace h3 {
namespace {

void copy_bytes(const Tensor& from, Tensor& to) {
#ifdef H3_HAVE_CUDA
  if (from.device() == Device::cuda) return cuda::copy(from, to);
#endif
  std::memcpy(to.bytes(), from.bytes(), from.size_bytes());
}

// Where logical ranks meet.
class Board {
 public:
  Board(int ranks, TimeLimit limit)
      : limit_(limit), posted_(std::size_t(ranks)), states_(std::size_t(ranks)) {}

  struct Posted {
    std::vector<Tensor> parts;  // handles: a rank that fails must not take away what others still read
    std::string text;
  };
  Posted& posted(int rank) { return posted_[std::size_t(rank)]; }

  // Returns when every rank has come to the same place.
  void meet(int rank, const std::string& place) {
    std::unique_lock lock(mutex_);
    const std::int64_t meeting = meetings_;
    states_[std::size_t(rank)] = {State::waiting, place};
    if (std::ranges::all_of(states_, [](const auto& state) { return state.is == State::waiting; })) {
      if (std::ranges::any_of(states_, [&](const auto& other) { return other.place != place; }))
        name_the_places();
      for (auto& state : states_) state.is = State::running;
      ++meetings_;
      changed_.notify_all();
    } else {
      changed_.notify_all();
      const bool met = changed_.wait_for(
          lock, limit_, [&] { return meetings_ != meeting || stopped() || someone_ended(); });
      if (meetings_ == meeting && !stopped()) name_the_missing(place, met);
    }
    if (stopped()) fail("{}", why_stopped_);
  }

  void end(int rank) {
    const std::lock_guard lock(mutex_);
    states_[std::size_t(rank)].is = State::ended;
    changed_.notify_all();
  }

  void stop_all(const std::string& why) {
    const std::lock_guard lock(mutex_);
    stop(why);
  }

 private:
  struct State {
    enum { running, waiting, ended } is = running;
    std::string place = {};
  };
  bool stopped() const { return !why_stopped_.empty(); }
  void stop(const std::string& why) {
    if (!stopped()) why_stopped_ = why;
    changed_.notify_all();
  }
  bool someone_ended() const {
    return std::ranges::any_of(states_, [](const auto& state) { return state.is == State::ended; });
  }
  void name_the_places() {
    std::string places;
    for (std::size_t i = 0; i < states_.size(); ++i)
      places += fmt::format("{}rank {} at '{}'", places.empty() ? "" : ", ", i, states_[i].place);
    stop("ranks came to different exchanges: " + places);
  }
  void name_the_missing(const std::string& place, bool ended) {
    std::vector<int> missing;
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].is == (ended ? State::ended : State::running)) missing.push_back(int(i));
    stop(ended ? fmt::format("exchange '{}': {} ended before it", place, missing_ranks(missing))
               : fmt::format("exchange '{}': {} not come within {} ms", place, missing_ranks(missing),
                             limit_.count()));
  }

  TimeLimit limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t meetings_ = 0;
  std::vector<Posted> posted_;
  std::vector<State> states_;
  std::string why_stopped_;
};

class LogicalRank : public Exchange {
 public:
  LogicalRank(int rank, int ranks, Board& board) : Exchange(rank, ranks), board_(board) {}

  std::vector<std::string> announce(const std::string& what, const std::string& text) override {
    board_.posted(rank()).text = text;
    board_.meet(rank(), what);
    std::vector<std::string> texts;
    for (int i = 0; i < ranks(); ++i) texts.push_back(board_.posted(i).text);
    board_.meet(rank(), what);  // nobody writes before everybody has read
    return texts;
  }

 protected:
  void move(const std::string& node, std::span<const Tensor> outgoing, std::span<Tensor> incoming) override {
    board_.posted(rank()).parts.assign(outgoing.begin(), outgoing.end());
    board_.meet(rank(), node);
    for (int i = 0; i < ranks(); ++i) {
      if (i == rank()) continue;
      const Tensor& part = board_.posted(i).parts[std::size_t(rank())];
      Tensor& mine = incoming[std::size_t(i)];
      const std::size_t sent = part.empty() ? 0 : part.size_bytes(),
                        expected = mine.empty() ? 0 : mine.size_bytes();
      require(sent == expected, "exchange '{}': rank {} sends {} bytes, rank {} expects {}", node, i, sent,
              rank(), expected);
      if (sent > 0) copy_bytes(part, mine);
    }
    board_.meet(rank(), node);
  }

 private:
  Board& board_;
};

}  // namespace

void Traffic::add(const Entry& entry) {
  const auto known = std::ranges::find(received, entry.node, &Entry::node);
  if (known == received.end()) return received.push_back(entry);
  known->bytes += entry.bytes;
  known->seconds += entry.seconds;
}

std::int64_t Traffic::of(const std::string& node) const {
  const auto known = std::ranges::find(received, node, &Entry::node);
  return known == received.end() ? 0 : known->bytes;
}

std::int64_t Traffic::total() const {
  std::int64_t sum = 0;
  for (const Entry& entry : received) sum += entry.bytes;
  return sum;
}

void Exchange::swap(const std::string& node, std::span<const Tensor> outgoing, std::span<Tensor> incoming) {
  require(int(outgoing.size()) == ranks_ && int(incoming.size()) == ranks_,
          "exchange '{}': {} parts out and {} in, expected one for each of {} ranks", node, outgoing.size(),
          incoming.size(), ranks_);
  std::int64_t bytes = 0;
  for (int i = 0; i < ranks_; ++i)
    if (i != rank_ && !incoming[std::size_t(i)].empty())
      bytes += std::int64_t(incoming[std::size_t(i)].size_bytes());
  const auto start = std::chrono::steady_clock::now();
  move(node, outgoing, incoming);
  traffic_.add(
      {node, bytes, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
}

std::string missing_ranks(std::span<const int> ranks) {
  return fmt::format("{} {} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "),
                     ranks.size() == 1 ? "has" : "have");
}

void run_logical_ranks(int ranks, TimeLimit limit, const std::function<void(Exchange&)>& body) {
  require(ranks >= 1, "ranks: {}, expected at least 1", ranks);
  Board board(ranks, limit);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        LogicalRank exchange(rank, ranks, board);
        body(exchange);
      } catch (const std::exception& error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = std::current_exception();
        }
        board.stop_all(error.what());
      }
      board.end(rank);
    });
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace h3
