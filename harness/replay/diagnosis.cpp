#include "harness/replay/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "golden/math.h"
#include "harness/compare/compare.h"
#include "model/parallel.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

// Softmax of one query of one head: q (d), k strided by head.
struct SoftmaxRow {
  double largest_logit, entropy;
};
SoftmaxRow softmax_row(const float* q, const float* k, std::int64_t keys, std::int64_t stride,
                       std::int64_t head_dim) {
  const double scale = 1 / std::sqrt(double(head_dim));
  std::vector<double> logits;
  logits.reserve(std::size_t(keys));
  double magnitude = 0;
  for (std::int64_t key = 0; key < keys; ++key) {
    double sum = 0;
    for (std::int64_t i = 0; i < head_dim; ++i) sum += double(q[i]) * double(k[key * stride + i]);
    logits.push_back(sum * scale);
    magnitude = std::max(magnitude, std::abs(logits.back()));
  }
  // With w = e^(logit - largest) and W their sum, the entropy is ln W - sum(w (logit - largest)) / W.
  const double largest = *std::ranges::max_element(logits);
  double total = 0, weighted = 0;
  for (const double logit : logits) {
    const double below = logit - largest, weight = golden::exp(below);
    total += weight;
    weighted += weight * below;
  }
  return {magnitude, std::max(0.0, std::log(total) - weighted / total)};
}

// Errors of everything that nodes read, filled as nodes are done.
class Errors {
 public:
  // Graph inputs are compared when they are first read.
  double of(const std::string& name, const Values& candidate, const Values& golden) {
    const auto found = known_.find(name);
    return found != known_.end() ? found->second
                                 : known_[name] = measure(name, candidate, golden).relative_l2;
  }
  Comparison node(const std::string& name, const Values& candidate, const Values& golden) {
    const Comparison measured = measure(name, candidate, golden);
    known_[name] = measured.relative_l2;
    return measured;
  }

 private:
  static Comparison measure(const std::string& name, const Values& candidate, const Values& golden) {
    const Tensor& got = candidate.at(name);
    return compare(golden.at(name).reshaped(got.shape()), got);
  }
  std::map<std::string, double> known_;
};

// The candidate alone, without a golden at its side.
void measure_size(const Tensor& tensor, NodeDiagnosis& node) {
  double squares = 0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double value = tensor.at(i);
    if (!std::isfinite(value)) continue;
    ++finite;
    squares += value * value;
    node.absmax = std::max(node.absmax, std::abs(value));
  }
  node.non_finite = tensor.elements() - finite;
  node.rms = finite ? std::sqrt(squares / double(finite)) : 0;
}

}  // namespace

std::optional<double> NodeDiagnosis::growth() const {
  return input_error > 0 ? std::optional(error / input_error) : std::nullopt;
}

std::vector<std::int64_t> sampled_queries(std::int64_t rows, std::int64_t most) {
  require(rows > 0 && most > 1, "sampled queries: {} of {} rows, expected at least 2 of 1", most, rows);
  std::vector<std::int64_t> queries;
  if (rows <= most) {
    queries.resize(std::size_t(rows));
    std::iota(queries.begin(), queries.end(), 0);
  } else {
    for (std::int64_t i = 0; i < most; ++i) queries.push_back(i * (rows - 1) / (most - 1));
  }
  return queries;
}

std::vector<HeadDiagnosis> diagnose_heads(const Tensor& q, const Tensor& k,
                                          std::span<const std::int64_t> queries) {
  require(
      q.shape().size() == 3 && k.shape().size() == 3 && q.shape()[1] == k.shape()[1] && q.cols() == k.cols(),
      "softmax rows: q is {}, k is {}, expected (rows, heads, d) of the same heads", to_string(q.shape()),
      to_string(k.shape()));
  require(!queries.empty(), "softmax rows: no query");
  for (const auto query : queries)
    require(query >= 0 && query < q.shape()[0], "softmax rows: query {} of {}", query, q.shape()[0]);
  const Tensor wide_q = q.to(DType::fp32), wide_k = k.to(DType::fp32);
  const std::int64_t heads = q.shape()[1], head_dim = q.cols(), stride = heads * head_dim;
  const auto count = std::int64_t(queries.size());
  std::vector<SoftmaxRow> rows(std::size_t(heads * count));
  parallel_for(0, heads * count, 8, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t head = i / count, query = queries[std::size_t(i % count)];
      rows[std::size_t(i)] =
          softmax_row(wide_q.data<float>() + query * stride + head * head_dim,
                      wide_k.data<float>() + head * head_dim, wide_k.shape()[0], stride, head_dim);
    }
  });
  std::vector<HeadDiagnosis> found(std::size_t(heads), HeadDiagnosis{});
  for (std::int64_t head = 0; head < heads; ++head) {
    HeadDiagnosis& h = found[std::size_t(head)];
    h.min_entropy = rows[std::size_t(head * count)].entropy;
    for (std::int64_t i = 0; i < count; ++i) {
      const SoftmaxRow& row = rows[std::size_t(head * count + i)];
      h.largest_logit = std::max(h.largest_logit, row.largest_logit);
      h.min_entropy = std::min(h.min_entropy, row.entropy);
      h.mean_entropy += row.entropy / double(count);
    }
  }
  return found;
}

Diagnosis diagnose_block(const ReplayRequest& request, const ReplayProgress& progress) {
  Diagnosis found;
  ReplayRequest plain = request;
  plain.golden = true;
  plain.repeat = plain.batch_rows = plain.permute_rows = false;
  Errors errors;
  const ReplayReport report =
      replay_block(plain, progress, [&](const Node& node, const Values& candidate, const Values& golden) {
        NodeDiagnosis diagnosis;
        diagnosis.node = node.name;
        for (const auto& name : node.inputs) {
          if (candidate.at(name).dtype() == DType::i64) continue;
          const double error = errors.of(name, candidate, golden);
          if (error > diagnosis.input_error) diagnosis.input_error = error, diagnosis.worst_input = name;
        }
        diagnosis.error = errors.node(node.name, candidate, golden).relative_l2;
        measure_size(candidate.at(node.name), diagnosis);
        found.nodes.push_back(diagnosis);
        if (node.name == "attention") {
          const Tensor &q = candidate.at(node.inputs[0]), &k = candidate.at(node.inputs[1]);
          found.queries = sampled_queries(q.shape()[0], kSampledQueries);
          found.heads = diagnose_heads(q, k, found.queries);
        }
      });
  found.request = report.request;
  found.graph = report.graph;
  found.weights = report.weights;
  found.device = report.chain_isa;
  found.rows = report.rows;
  return found;
}

std::string to_table(const Diagnosis& found) {
  std::string out =
      fmt::format("{}  layout {} (S = {})  engine {} ({})\nweights   {}\n\n", found.graph,
                  found.request.layout, found.rows, found.request.engine, found.device, found.weights);
  out += fmt::format("{:<17} {:>11} {:>11} {:>9}  {:<17} {:>11} {:>11}\n", "node", "error", "of inputs",
                     "growth", "worst input", "rms", "absmax");
  for (const auto& node : found.nodes) {
    const auto growth = node.growth();
    out += fmt::format("{:<17} {:>11.3e} {:>11.3e} {:>9}  {:<17} {:>11.4g} {:>11.4g}", node.node, node.error,
                       node.input_error, growth ? fmt::format("{:.3g}x", *growth) : "-",
                       node.worst_input.empty() ? "-" : node.worst_input, node.rms, node.absmax);
    if (node.non_finite) out += fmt::format("  {} NaN or Inf", node.non_finite);
    out += '\n';
  }
  out += fmt::format(
      "\nattention: softmax rows of {} of {} queries, evenly spread, over all keys (FP64; entropy in nats, "
      "even weights "
      "have {:.3f})\n",
      found.queries.size(), found.rows, std::log(double(found.rows)));
  out +=
      fmt::format("{:>4} {:>14} {:>13} {:>12}\n", "head", "largest |logit|", "mean entropy", "min entropy");
  for (std::size_t head = 0; head < found.heads.size(); ++head) {
    const HeadDiagnosis& h = found.heads[head];
    out += fmt::format("{:>4} {:>15.2f} {:>13.4g} {:>12.4g}\n", head, h.largest_logit, h.mean_entropy,
                       h.min_entropy);
  }
  if (!found.heads.empty()) {
    const auto peak = std::ranges::max_element(found.heads, {}, &HeadDiagnosis::largest_logit);
    const auto narrow = std::ranges::min_element(found.heads, {}, &HeadDiagnosis::mean_entropy);
    out += fmt::format("largest |logit| {:.2f} in head {}; lowest mean entropy {:.4g} in head {}\n",
                       peak->largest_logit, peak - found.heads.begin(), narrow->mean_entropy,
                       narrow - found.heads.begin());
  }
  return out;
}

Json to_json(const Diagnosis& found) {
  Json json = {{"schema", "h3.diagnosis.v1"},    {"graph", found.graph},
               {"layout", found.request.layout}, {"rows", found.rows},
               {"engine", found.request.engine}, {"device", found.device},
               {"seed", found.request.seed},     {"weights", found.weights}};
  json["nodes"] = Json::array();
  for (const auto& node : found.nodes) {
    const auto growth = node.growth();
    json["nodes"].push_back({{"node", node.node},
                             {"error", number(node.error)},
                             {"input_error", number(node.input_error)},
                             {"worst_input", node.worst_input.empty() ? Json() : Json(node.worst_input)},
                             {"growth", growth ? number(*growth) : Json()},
                             {"rms", number(node.rms)},
                             {"absmax", number(node.absmax)},
                             {"non_finite", node.non_finite}});
  }
  Json heads = Json::array();
  for (std::size_t head = 0; head < found.heads.size(); ++head)
    heads.push_back({{"head", head},
                     {"largest_logit", number(found.heads[head].largest_logit)},
                     {"mean_entropy", number(found.heads[head].mean_entropy)},
                     {"min_entropy", number(found.heads[head].min_entropy)}});
  json["attention"] = {{"sampled_queries", found.queries}, {"entropy_unit", "nat"}, {"heads", heads}};
  return json;
}

}  // namespace h3
