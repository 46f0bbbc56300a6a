#include "harness/full_model/drift_ledger.h"

#include <fmt/format.h>

#include <cmath>
#include <deque>
#include <map>

#include "harness/compare/compare.h"
#include "harness/execution/execution_over.h"
#include "harness/full_model/full_model.h"

namespace h3 {
namespace {

using Outputs = std::map<std::string, Tensor>;  // FP32, by kModelOutputs

Tensor wide(const Tensor& tensor) { return tensor.dtype() == DType::bf16 ? tensor.to(DType::fp32) : tensor; }

// A stage of the model; of its values the model's outputs.
Outputs run_stage(const Execution& execution, FullModel& model) {
  Outputs outputs;
  for (const auto& [name, tensor] : model.forward_stage())
    for (const char* output : kModelOutputs)
      if (name == output) outputs[name] = wide(execution.fetch(tensor));
  return outputs;
}

// The golden with its parameters kept for as long as one stage is run: all hybrids take the same ones.
class KeptParameters : public ExecutionOver {
 public:
  using ExecutionOver::ExecutionOver;
  Tensor parameter(const Weights& weights, const std::string& name) const override {
    Tensor& kept = kept_[name];
    if (kept.empty()) kept = base().parameter(weights, name);
    return kept;
  }
  void forget() { kept_.clear(); }

 private:
  mutable std::map<std::string, Tensor> kept_;
};

// Over two tensors of one shape, in FP64.
template <class Term>
double sum(const Tensor& a, const Tensor& b, const Term& term) {
  double total = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    total += term(double(a.data<float>()[i]), double(b.data<float>()[i]));
  return total;
}

double distance(const Tensor& a, const Tensor& b) {
  return std::sqrt(sum(a, b, [](double x, double y) { return (x - y) * (x - y); }));
}

double norm(const Tensor& a) {
  return std::sqrt(sum(a, a, [](double x, double) { return x * x; }));
}

// <after - before, end - start> / <end - start, end - start>; 0 where there is no drift.
double projection(const Tensor& before, const Tensor& after, const Tensor& start, const Tensor& end) {
  double along = 0, whole = 0;
  for (std::int64_t i = 0; i < start.elements(); ++i) {
    const double drift = double(end.data<float>()[i]) - double(start.data<float>()[i]);
    along += (double(after.data<float>()[i]) - double(before.data<float>()[i])) * drift;
    whole += drift * drift;
  }
  return whole == 0 ? 0 : along / whole;
}

bool is_block(const Stage& stage) { return stage.graph.name.starts_with("transformer_blocks."); }

std::string number_of(const std::string& block) { return block.substr(block.rfind('.') + 1); }

std::string bar(double share) {
  constexpr int kWidth = 40;
  return std::string(std::size_t(std::lround(std::min(1.0, std::max(0.0, share)) * kWidth)), '#');
}

}  // namespace

DriftLedger drift_ledger(const Execution& candidate, const Execution& given_golden, const Weights& weights,
                         const PackedLayout& layout, std::uint64_t seed, const LedgerProgress& progress,
                         std::int64_t blocks) {
  require(blocks >= 1, "drift ledger: {} blocks to a line, expected 1 or more", blocks);
  const Values inputs = model_inputs(layout, weights.config(), seed);
  const auto stages = std::int64_t(model_stages(weights.config()).size());
  KeptParameters golden(given_golden);
  const auto for_golden = [&](const Tensor& placed) { return golden.place(wide(candidate.fetch(placed))); };

  FullModel own(candidate, weights, inputs);
  std::deque<FullModel> models;  // of the hybrids but the last, all at the stage that the candidate runs next
  models.emplace_back(golden, weights, widened(inputs));
  std::deque<Outputs> hybrids;
  std::vector<std::string> names;
  std::vector<std::string> line;  // stages since the last hybrid began
  for (std::int64_t done = 0; const Stage* stage = own.next_forward(); ++done) {
    if (progress) progress(done, stages, stage->graph.name);
    line.push_back(stage->graph.name);
    hybrids.clear();
    for (FullModel& model : models) hybrids.push_back(run_stage(golden, model));
    golden.forget();
    hybrids.push_back(run_stage(candidate, own));
    const Stage* const next = own.next_forward();
    if (is_block(*stage) && next && is_block(*next) && std::int64_t(line.size()) < blocks) continue;
    names.push_back(line.size() == 1 ? line[0] : line.front() + " to " + number_of(line.back()));
    line.clear();
    if (next)
      models.emplace_back(golden, weights, Values{})
          .go_on_from(own, for_golden, FullModel::Scope::all_stages);
  }

  DriftLedger ledger;
  ledger.engine = candidate.name();
  const auto part = [&](std::size_t i, const char* output) {
    const Tensor &before = hybrids[i].at(output), &after = hybrids[i + 1].at(output),
                 &start = hybrids.front().at(output), &end = hybrids.back().at(output);
    return DriftPart{distance(before, after) / norm(start), projection(before, after, start, end)};
  };
  for (std::size_t i = 0; i < names.size(); ++i)
    ledger.stages.push_back({names[i], part(i, "video_output"), part(i, "audio_output")});
  const auto measured = [&](const char* output) {
    return compare(hybrids.front().at(output), hybrids.back().at(output)).relative_l2;
  };
  ledger.video = measured("video_output");
  ledger.audio = measured("audio_output");
  return ledger;
}

std::string to_table(const DriftLedger& ledger) {
  std::string out =
      fmt::format("drift ledger  config {}  layout {}  engine {}\n\n{:<32} {:>11} {:>8} {:>11} {:>8}\n",
                  ledger.config, ledger.layout, ledger.engine, "stage", "video", "share", "audio", "share");
  double video = 0, audio = 0;
  for (const auto& stage : ledger.stages) {
    out += fmt::format("{:<32} {:>11.3e} {:>7.1f}% {:>11.3e} {:>7.1f}%  {}\n", stage.stage, stage.video.size,
                       100 * stage.video.share, stage.audio.size, 100 * stage.audio.share,
                       bar(stage.video.share));
    video += stage.video.share;
    audio += stage.audio.share;
  }
  return out + fmt::format("{:<32} {:>11.3e} {:>7.1f}% {:>11.3e} {:>7.1f}%\n", "measured at the outputs",
                           ledger.video, 100 * video, ledger.audio, 100 * audio);
}

nlohmann::ordered_json to_json(const DriftLedger& ledger) {
  nlohmann::ordered_json json = {{"schema", "h3.drift_ledger.v1"},
                                 {"config", ledger.config},
                                 {"layout", ledger.layout},
                                 {"engine", ledger.engine},
                                 {"measured", {{"video", ledger.video}, {"audio", ledger.audio}}}};
  for (const auto& stage : ledger.stages)
    json["stages"].push_back({{"stage", stage.stage},
                              {"video", {{"size", stage.video.size}, {"share", stage.video.share}}},
                              {"audio", {{"size", stage.audio.size}, {"share", stage.audio.share}}}});
  return json;
}

}  // namespace h3
