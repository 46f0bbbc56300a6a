#include "harness/full_model/drift_ledger.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "harness/compare/compare.h"
#include "harness/full_model/full_model.h"

namespace h3 {
namespace {

using Outputs = std::map<std::string, Tensor>;  // FP32, by kModelOutputs

Tensor wide(const Tensor& tensor) { return tensor.dtype() == DType::bf16 ? tensor.to(DType::fp32) : tensor; }

// What is left of a forward pass.
Outputs finish(const Execution& execution, FullModel& model) {
  Outputs outputs;
  while (model.next_forward())
    for (const auto& [name, tensor] : model.forward_stage())
      for (const char* output : kModelOutputs)
        if (name == output) outputs[name] = wide(execution.fetch(tensor));
  return outputs;
}

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

std::string bar(double share) {
  constexpr int kWidth = 40;
  return std::string(std::size_t(std::lround(std::min(1.0, std::max(0.0, share)) * kWidth)), '#');
}

}  // namespace

DriftLedger drift_ledger(const Execution& candidate, const Execution& golden, const Weights& weights,
                         const PackedLayout& layout, std::uint64_t seed, const LedgerProgress& progress) {
  const Values inputs = model_inputs(layout, weights.config(), seed);
  const auto stages = std::int64_t(model_stages(weights.config()).size());
  const auto for_golden = [&](const Tensor& placed) { return golden.place(wide(candidate.fetch(placed))); };

  FullModel own(candidate, weights, inputs), alone(golden, weights, widened(inputs));
  std::vector<Outputs> hybrids = {finish(golden, alone)};
  std::vector<std::string> names;
  while (const Stage* stage = own.next_forward()) {
    if (progress) progress(std::int64_t(names.size()), stages, stage->graph.name);
    names.push_back(stage->graph.name);
    const FullModel::Named computed = own.forward_stage();
    if (own.next_forward()) {
      FullModel hybrid(golden, weights, {});
      hybrid.go_on_from(own, for_golden, FullModel::Scope::all_stages);
      hybrids.push_back(finish(golden, hybrid));
    } else {
      Outputs& last = hybrids.emplace_back();
      for (const auto& [name, tensor] : computed)
        for (const char* output : kModelOutputs)
          if (name == output) last[name] = wide(candidate.fetch(tensor));
    }
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
