// The record that the full model's bounds are made of, and the rule that makes them.
#include "conformance/fuzz/target.h"
#include "harness/full_model/full_model_ensemble.h"
#include "model/json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace h3;
  fuzz::read_or_refuse([&] {
    const Ensemble ensemble = ensemble_from_json(parse_json(fuzz::text(data, size), "ensemble"), "ensemble");
    for (const Measure measure : kMeasures) rule_of(ensemble, measure);
  });
  return 0;
}
