// Ranks that are processes of one host. They meet in a folder: each counts the exchanges that it has come to
// in a file that all map, so that a rank which hangs or dies is named before anybody waits for its bytes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/parallel/exchange.h"

namespace h3 {

class MeetingPlace {
 public:
  static void create(const std::string& folder, int ranks);  // by the launcher, before any rank
  MeetingPlace(std::string folder, int ranks, TimeLimit limit);
  ~MeetingPlace();
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  // Returns when every rank has come to the same place. Errors: a rank that does not come within the limit,
  // with the place where it was last; that has failed; that came to another place.
  void meet(int rank, const std::string& place);
  std::vector<std::string> announce(int rank, const std::string& what, const std::string& text);
  void fail(int rank);               // the others stop at their next meeting
  std::string last(int rank) const;  // where it was seen last

  const std::string& folder() const { return folder_; }
  int ranks() const { return ranks_; }
  TimeLimit limit() const { return limit_; }

 private:
  struct Slot;
  Slot& slot(int rank) const;

  std::string folder_;
  int ranks_;
  TimeLimit limit_;
  Slot* slots_ = nullptr;
};

class ProcessExchange : public Exchange {
 public:
  ProcessExchange(int rank, MeetingPlace& place) : Exchange(rank, place.ranks()), place_(place) {}
  std::vector<std::string> announce(const std::string& what, const std::string& text) override {
    return place_.announce(rank(), what, text);
  }

 protected:
  MeetingPlace& place_;
};

// Parts through files in the folder: slow, and everywhere.
std::unique_ptr<Exchange> file_exchange(int rank, MeetingPlace& place);

// One process for each rank, `command` followed by "--rank <i>"; returns their exit codes, -signal for one
// that a signal ended. A rank that ends with an error is reported to the others; ranks that have not ended
// within the limit are killed and named in an Error.
std::vector<int> launch_ranks(const std::vector<std::string>& command, MeetingPlace& place, TimeLimit limit);

}  // namespace h3
