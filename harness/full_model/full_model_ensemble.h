// The provider's ensemble as it is recorded (fixtures/export_full_model.py): how far each tensor of each
// member is from the same model in float64, and the factor that follows.
//
// k, one per measure, is the smallest factor, rounded up to a tenth, at which every member passes when it is
// held out and judged by the others; no candidate has a part in it. The floor is what one rounding to the
// tensor's own type adds at most: errors uniform in half a unit in the last place have, just above a power of
// two where they weigh most, a relative RMS of u / sqrt(3), u = 2^-8 (BF16) or 2^-24 (FP32). Without it, a
// tensor that all members compute alike to the last bit would refuse another correct rounding.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/dtype.h"
#include "model/json.h"

namespace h3 {

enum class Pass : std::uint8_t { forward, backward };  // the value itself, or its gradient
const char* name_of(Pass pass);
Pass pass_named(const std::string& name, const std::string& what);    // an Error for another name
DType dtype_named(const std::string& name, const std::string& what);  // "bf16" or "fp32"

// ---- the record ----

enum class Measure : std::uint8_t { chained, isolated };
inline constexpr Measure kMeasures[] = {Measure::chained, Measure::isolated};
const char* name_of(Measure measure);

struct MemberErrors {  // relative L2
  double chained, isolated;
  double of(Measure measure) const { return measure == Measure::chained ? chained : isolated; }
};

struct EnsembleTensor {
  Pass pass;
  std::string name;
  DType dtype;
  double norm;                       // Euclidean, of the float64 tensor
  double default_max_abs;            // chained, of the default member
  std::vector<MemberErrors> errors;  // in the order of the members
  std::string xxh3_128 = {};         // of the default member's bytes; empty: not recorded (gradients)
};

struct Ensemble {
  std::string config, layout, weights;
  std::uint64_t seed = 0;
  nlohmann::ordered_json provenance;
  std::map<std::string, std::string> inputs;  // SHA-256 of what the model was given
  std::vector<std::string> members;           // the first one is the provider's default
  std::vector<EnsembleTensor> tensors;
};

// Errors: a field that is missing or of another type, fewer than two members, an error that is not a finite
// number.
Ensemble ensemble_from_json(const nlohmann::json& json, const std::string& what);

// ---- the rule ----

struct EnsembleRule {
  double k = 0;
  std::vector<double> held_out;     // by member: the factor that it needs against the others, not rounded
  std::vector<std::string> tensor;  // ... and the tensor that decides
};

// Among the members, without one of them where its place is given.
double largest_error(const EnsembleTensor& tensor, Measure measure, std::size_t without = std::size_t(-1));
double rounding_floor(DType dtype);
EnsembleRule rule_of(const Ensemble& ensemble, Measure measure);

}  // namespace h3
