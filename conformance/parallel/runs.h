// Runs of a block on several ranks, shared by the claims about them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>

#include "conformance/block0/runs.h"
#include "harness/parallel/parallel_block.h"

namespace h3 {

struct RanksRow {
  const char* config;
  const char* layout;
  const char* engine;
  const char* plan;
  int ranks;
};
inline void PrintTo(const RanksRow& row, std::ostream* out) {
  *out << row.config << '_' << row.layout << '_' << row.engine << '_' << row.plan << "_ranks" << row.ranks;
}

inline ParallelRequest request_of(const RanksRow& row) {
  ParallelRequest request;
  request.config = row.config;
  request.layout = row.layout;
  request.engine = row.engine;
  request.plan = row.plan;
  request.ranks = row.ranks;
  return request;
}

// One rank's run is the same for all plans and numbers of ranks; the last one is kept. A run forward and
// backward serves those that ask for forward alone.
inline const OneRank& one_rank(const ParallelRequest& request) {
  static std::string key;
  static std::unique_ptr<OneRank> one;
  const std::string asked = request.config + request.layout + request.engine;
  if (!one || asked != key || (request.backward && one->gradients.empty())) {
    one.reset();
    one = std::make_unique<OneRank>(request);
    key = asked;
  }
  return *one;
}

inline Plan plan_of(const ParallelRequest& request) {
  return plan_named(request.plan, one_rank(request).graph, request.ranks);
}

}  // namespace h3
