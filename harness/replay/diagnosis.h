// Where a block's error comes from: the error of every node of a chained replay, how much larger it is than
// that of the node's inputs, and how peaked attention is.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harness/replay/replay.h"
#include "model/json.h"

namespace h3 {

struct NodeDiagnosis {
  std::string node, worst_input;  // the input with the largest error; empty: every input was exact
  double error = 0;               // relative L2 against the chained golden
  double input_error = 0;         // of worst_input
  double rms = 0, absmax = 0;     // of the candidate's finite elements
  std::int64_t non_finite = 0;    // elements of the candidate

  std::optional<double> growth() const;  // error / input_error; none where every input was exact
};

// Softmax rows of one head, over the sampled queries and all keys; entropy in nats, ln S where all keys weigh
// alike.
struct HeadDiagnosis {
  double largest_logit = 0;  // |q k| / sqrt(d)
  double mean_entropy = 0, min_entropy = 0;
};

struct Diagnosis {
  ReplayRequest request;
  std::string graph, weights, device;
  std::int64_t rows = 0;
  std::vector<NodeDiagnosis> nodes;
  std::vector<std::int64_t> queries;  // the sampled rows
  std::vector<HeadDiagnosis> heads;
};

// q and k (S, heads, d), any float type, as attention reads them. FP64, logits with the largest one
// subtracted. Errors: shapes that do not fit, a query outside of q.
std::vector<HeadDiagnosis> diagnose_heads(const Tensor& q, const Tensor& k,
                                          std::span<const std::int64_t> queries);

// At most `most` rows, evenly spread over [0, rows), the first and the last among them.
std::vector<std::int64_t> sampled_queries(std::int64_t rows, std::int64_t most);

inline constexpr std::int64_t kSampledQueries = 64;

// Block, layout, engine, seed and checkpoint of the request; its checks are not made.
Diagnosis diagnose_block(const ReplayRequest& request, const ReplayProgress& progress = {});

std::string to_table(const Diagnosis& diagnosis);
nlohmann::ordered_json to_json(const Diagnosis& diagnosis);  // schema h3.diagnosis.v1

}  // namespace h3
