// The reduced model as the cases of this gate see it: opened once, examined once per execution.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "harness/full_model_check.h"
#include "model/named_configs.h"

namespace h3 {

struct ReducedModel {
  Config config = config_named("reduced");
  FullModelBounds bounds = load_bounds("reduced");
  PackedLayout layout = named_layout(bounds.layout);
  std::unique_ptr<Weights> weights = open_weights("", bounds.seed, config);
  std::unique_ptr<Execution> golden = golden_execution(false, config);

  FullModelReport examine(const Execution& candidate, const OnCompared& on_compared = {}) const {
    return examine_full_model(candidate, *golden, *weights, layout, bounds, {}, on_compared);
  }
};

inline const ReducedModel& reduced_model() {
  static const ReducedModel model;
  return model;
}

}  // namespace h3
