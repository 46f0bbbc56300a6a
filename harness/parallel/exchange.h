// How the ranks of a parallel run hand tensors to one another. An exchange moves bytes and computes nothing:
// there is no collective here that adds. One operation is enough: a part for every rank, a part from every
// rank; an all-gather hands the same part to all.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/tensor.h"

namespace h3 {

// What one rank received from other ranks, by the node that needed it, in the order of first use.
struct Traffic {
  struct Entry {
    std::string node;
    std::int64_t bytes = 0;
    double seconds = 0;  // until it was there, waiting for slower ranks included
  };
  std::vector<Entry> received;
  void add(const Entry& entry);
  std::int64_t of(const std::string& node) const;
  std::int64_t total() const;
};

class Exchange {
 public:
  Exchange(int rank, int ranks) : rank_(rank), ranks_(ranks) {}
  virtual ~Exchange() = default;
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  // outgoing[i] goes to rank i, incoming[i] is filled by rank i and must have the size that rank i sends; an
  // empty tensor is no part. Own entries are left alone. `node` says for whom.
  void swap(const std::string& node, std::span<const Tensor> outgoing, std::span<Tensor> incoming);

  // A line of text from every rank, by rank: what is declared before anything runs.
  virtual std::vector<std::string> announce(const std::string& what, const std::string& text) = 0;

  const Traffic& traffic() const { return traffic_; }

 protected:
  virtual void move(const std::string& node, std::span<const Tensor> outgoing,
                    std::span<Tensor> incoming) = 0;

 private:
  int rank_, ranks_;
  Traffic traffic_;
};

using TimeLimit = std::chrono::milliseconds;

// "rank 2 has", "ranks 1, 3 have": who is missing at an exchange.
std::string missing_ranks(std::span<const int> ranks);

// `body` as logical ranks of this process, each in a thread of its own, on one CPU or one GPU. The first
// error is thrown here; the other ranks then stop at their next exchange. Errors: a rank that does not come
// to an exchange within the limit, that ends before it, or that comes to another one; parts of other sizes
// than expected.
void run_logical_ranks(int ranks, TimeLimit limit, const std::function<void(Exchange&)>& body);

}  // namespace h3
