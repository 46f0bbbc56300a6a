#include "harness/power/detection_floor.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "fixtures/path.h"
#include "harness/execution/backward_chain.h"
#include "harness/execution/graph_values.h"
#include "harness/replay/block_run.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Size {
  double squares = 0, largest = 0;
  void add(double x) {
    squares += x * x;
    largest = std::max(largest, std::fabs(x));
  }
};

// Where limits turn from accepting to rejecting an error of this direction.
class Limits {
 public:
  Limits(const Bound& bound, const Size& golden) {
    require(golden.squares > 0, "detection floor: the golden has no energy");
    if (bound.relative_l2) norm_ = *bound.relative_l2 * std::sqrt(golden.squares);
    if (bound.max_abs) largest_ = *bound.max_abs;
    if (bound.max_abs_over_absmax) largest_ = std::min(largest_, *bound.max_abs_over_absmax * golden.largest);
    require(norm_ < kInfinity || largest_ < kInfinity,
            "detection floor: the bound limits neither the relative L2 error nor the largest one");
  }
  double floor(const Size& direction) const {
    if (direction.squares == 0) return kInfinity;
    return std::min(norm_ / std::sqrt(direction.squares), largest_ / direction.largest);
  }

 private:
  double norm_ = kInfinity, largest_ = kInfinity;
};

Tensor noise_for(const Tensor& golden) {
  return synthetic_activation(kDefaultSeed, "detection_floor", golden.shape(), DType::fp32);
}

double rms_of(const Tensor& golden) {
  Size size;
  for (std::int64_t i = 0; i < golden.elements(); ++i) size.add(golden.at(i));
  return std::sqrt(size.squares / double(golden.elements()));
}

DetectionFloor of_whole(const char* fault, double floor) {
  return {fault, floor, floor, 1, floor >= 1 ? 1 : 0};
}

// Parts without energy have no relative error and are left out.
DetectionFloor of_parts(const char* fault, const Limits& limits, const std::vector<Size>& parts) {
  std::vector<double> floors;
  for (const Size& part : parts)
    if (part.squares > 0) floors.push_back(limits.floor(part));
  std::ranges::sort(floors);
  return {fault, floors[floors.size() / 2], floors.back(), std::int64_t(floors.size()),
          std::ranges::count_if(floors, [](double floor) { return floor >= 1; })};
}

bool in_part(const Tensor& golden, const TensorParts& parts, const std::string& fault, std::int64_t i) {
  const std::int64_t row = i / golden.cols(), column = i % golden.cols();
  if (fault == "one_row") return row == 0;
  if (fault == "one_head") return column / parts.head_dim == 0;
  return parts.row_modality[std::size_t(row)] == parts.row_modality[0];
}

}  // namespace

std::vector<DetectionFloor> detection_floors(const Bound& bound, const Tensor& golden,
                                             const TensorParts& parts) {
  const std::int64_t rows = golden.rows(), cols = golden.cols();
  require(parts.row_modality.empty() || std::int64_t(parts.row_modality.size()) == rows,
          "detection floor: {} modalities for {} rows", parts.row_modality.size(), rows);
  Size whole;
  std::vector<Size> by_row(static_cast<std::size_t>(rows)), by_modality(static_cast<std::size_t>(kTags)),
      by_head(parts.head_dim > 0 ? std::size_t(cols / parts.head_dim) : 0);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const double x = golden.at(r * cols + c);
      whole.add(x);
      by_row[std::size_t(r)].add(x);
      if (!by_head.empty()) by_head[std::size_t(c / parts.head_dim)].add(x);
      if (!parts.row_modality.empty()) by_modality[std::size_t(parts.row_modality[std::size_t(r)])].add(x);
    }
  const Limits limits(bound, whole);
  const double rms = std::sqrt(whole.squares / double(golden.elements()));

  const Tensor noise = noise_for(golden);
  const double noise_rms = rms_of(noise);
  Size random, shift, permuted;
  const std::int64_t step = rows > 1 ? cols : 1;  // a single row is rotated by one column
  for (std::int64_t i = 0; i < golden.elements(); ++i) {
    random.add(noise.data<float>()[i] / noise_rms * rms);
    shift.add(rms);
    permuted.add(double(golden.at((i + step) % golden.elements())) - golden.at(i));
  }

  std::vector<DetectionFloor> floors = {
      of_whole("random", limits.floor(random)), of_whole("scaling", limits.floor(whole)),
      of_whole("shift", limits.floor(shift)), of_whole("zeros", limits.floor(whole)),
      of_whole("rows_permuted", limits.floor(permuted))};
  if (rows > 1) floors.push_back(of_parts("one_row", limits, by_row));
  if (by_head.size() > 1) floors.push_back(of_parts("one_head", limits, by_head));
  if (!parts.row_modality.empty()) floors.push_back(of_parts("one_modality", limits, by_modality));
  return floors;
}

Tensor with_fault(const Tensor& golden, const TensorParts& parts, const std::string& fault, double size) {
  Tensor spoiled = golden.to(DType::fp64);
  double* out = spoiled.data<double>();
  const std::int64_t count = golden.elements(), step = golden.rows() > 1 ? golden.cols() : 1;
  const Tensor noise = noise_for(golden);
  const double rms = rms_of(golden), noise_rms = rms_of(noise);
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = golden.at(i);
    if (fault == "random")
      out[i] += size * noise.data<float>()[i] / noise_rms * rms;
    else if (fault == "scaling")
      out[i] += size * x;
    else if (fault == "shift")
      out[i] += size * rms;
    else if (fault == "zeros")
      out[i] -= size * x;
    else if (fault == "rows_permuted")
      out[i] += size * (golden.at((i + step) % count) - x);
    else if (in_part(golden, parts, fault, i))
      out[i] -= size * x;
  }
  return spoiled;
}

std::vector<TensorFloors> block_floors(const std::string& layout, const ReplayProgress& progress) {
  const auto nodes = ProviderRecord::load(fixture_path("block0.h5"), layout);
  const auto gradients = ProviderGradients::load(fixture_path("block0_backward.h5"), layout);
  require(nodes && gradients, "layout {}: block 0 has no recorded bounds, forward and backward", layout);
  ReplayRequest request;
  request.layout = layout;
  const BlockRun run(request);
  const Config& config = run.config;

  const auto parts_of = [&](const Tensor& tensor) {
    TensorParts parts;
    if (tensor.cols() == config.inner_dim()) parts.head_dim = config.attention_head_dim;
    if (tensor.rows() == run.layout.rows()) parts.row_modality = run.layout.token_tags;
    if (tensor.rows() == kTags * std::int64_t(run.layout.timesteps.size()) &&
        tensor.cols() == config.modulation_dim())
      for (std::int64_t r = 0; r < tensor.rows(); ++r) parts.row_modality.push_back(r % kTags);
    return parts;
  };
  // Heads lie side by side in a row.
  const auto as_matrix = [&](const Tensor& tensor) {
    return tensor.shape().size() == 3
               ? tensor.reshaped({tensor.shape()[0], tensor.elements() / tensor.shape()[0]})
               : tensor;
  };
  std::vector<TensorFloors> tensors;
  const auto add = [&](const std::string& name, bool backward, const Bound& bound, bool bytes,
                       const Tensor& golden) {
    const Tensor matrix = as_matrix(golden);
    tensors.push_back({name, backward, bound, bytes, detection_floors(bound, matrix, parts_of(matrix))});
  };

  Values values = run.inputs.golden;
  std::int64_t done = 0;
  for (const Node& node : run.graph.nodes) {
    if (progress) progress(done++, node.name);
    const Tensor& golden = values[node.name] =
        run.golden->run(node, pick(node.inputs, values), load(node.parameters, *run.weights));
    add(node.name, false, {.relative_l2 = 1.25 * nodes->node(node.name).relative_l2 + 1e-3}, true, golden);
  }
  const Tensor output_gradient = stand_in_output_gradient(run.layout, config, request.seed).to(DType::fp32);
  BackwardChain chain(*run.golden, run.graph, std::move(values), output_gradient);
  while (!chain.done()) {
    if (progress) progress(done, "backward of " + chain.next().name);
    const BackwardStep step = chain.step(load(chain.next().parameters, *run.weights));
    for (const auto& [value, golden] : step.complete) {
      const ProviderGradient& recorded = gradients->gradient(value);
      add(value, true, recorded.bound(), recorded.bytes.has_value(), golden);
    }
  }
  return tensors;
}

std::vector<std::string> blind_spots(const std::vector<TensorFloors>& tensors) {
  std::vector<std::string> found;
  for (const auto& tensor : tensors)
    for (const auto& floor : tensor.floors)
      if (floor.parts == 1 && floor.worst >= 1)
        found.push_back(fmt::format("{}{}: {} of size {:.3g} is accepted", tensor.name,
                                    tensor.backward ? ".gradient" : "", floor.fault, floor.worst));
  return found;
}

}  // namespace h3
