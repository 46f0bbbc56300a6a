// How far the whole model's tensors may lie from the golden. The measure is the provider itself: an ensemble
// of its configurations (fixtures/export_full_model.py), each with its distance to the same model in float64.
//
//   bound(t) = k * (largest relative L2 error of tensor t among the members) + floor(t)
//
// twice. Chained: against the golden that runs the whole model by itself. Isolated: against the golden that
// gets, stage by stage, what the one it judges got; a fault shows in the stage that makes it. A bound of 1 or
// more would accept a tensor of zeros: it is blind, is reported and decides nothing. Chained, every gradient
// behind a block whose softmax is all but one-hot (hot_block, model/synthetic.h) is such a tensor, because
// the provider's own is further from the golden than its norm. Isolated, only the gradients of that block
// are, and there the bytes of the CPU twin decide.
//
// k, one per measure, is the smallest factor, rounded up to a tenth, at which every member passes when it is
// held out and judged by the others; no candidate has a part in it. The floor is what one rounding to the
// tensor's own type adds at most: errors uniform in half a unit in the last place have, just above a power of
// two where they weigh most, a relative RMS of u / sqrt(3), u = 2^-8 (BF16) or 2^-24 (FP32). Without it, a
// tensor that all members compute alike to the last bit would refuse another correct rounding.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/dtype.h"

namespace h3 {

enum class Pass : std::uint8_t { forward, backward };  // the value itself, or its gradient
const char* name_of(Pass pass);

// ---- the record ----

enum class Measure : std::uint8_t { chained, isolated };
inline constexpr Measure kMeasures[] = {Measure::chained, Measure::isolated};
const char* name_of(Measure measure);

struct MemberError {
  double relative_l2 = 0, max_abs = 0;
};

struct MemberErrors {
  MemberError chained, isolated;
  const MemberError& of(Measure measure) const { return measure == Measure::chained ? chained : isolated; }
};

struct EnsembleTensor {
  Pass pass;
  std::string name;
  DType dtype;
  double norm;                       // Euclidean, of the float64 tensor
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

// Errors: a field that is missing, fewer than two members, an error that is not a finite number.
Ensemble ensemble_from_json(const nlohmann::json& json, const std::string& what);

// ---- the rule ----

struct EnsembleRule {
  double k = 0;
  std::vector<double> held_out;     // by member: the factor that it needs against the others, not rounded
  std::vector<std::string> tensor;  // ... and the tensor that decides
};

double rounding_floor(DType dtype);
EnsembleRule rule_of(const Ensemble& ensemble, Measure measure);

// ---- the bounds ----

struct TensorBound {
  Pass pass = Pass::forward;
  std::string name;
  DType dtype = DType::bf16;
  double chained = 0, isolated = 0;  // limits of the relative L2 error
  double single_relative_l2 = 0,
         single_max_abs = 0;           // chained, 1.5 x the default member's error + floor: reported
  double norm = 0;                     // of the float64 tensor
  std::string provider_xxh3_128 = {};  // of the default member's bytes; empty: not recorded

  bool chained_is_blind() const { return chained >= 1; }
  bool isolated_is_blind() const { return isolated >= 1; }
};

struct FullModelBounds {
  std::string config, layout, weights, provider, sha256;  // sha256: of the file
  std::uint64_t seed = 0;
  double k_chained = 0, k_isolated = 0;
  std::map<std::string, std::string> inventory;  // SHA-256 of everything that the bounds follow from
  std::vector<TensorBound> tensors;

  const TensorBound& of(Pass pass, const std::string& name) const;  // an Error without one
};

// What the bounds of a configuration follow from, by name: the ensemble's file, the architecture, the layout,
// the weights, and what the model is given. Computed here and now.
std::map<std::string, std::string> inventory_of(const Ensemble& ensemble);

// The file of bounds as text: the same ensemble gives the same bytes.
std::string bounds_text(const Ensemble& ensemble);

// "full_model_reduced_tiny.json" and "full_model_reduced_tiny_bounds.json", in fixtures/.
std::string ensemble_file(const std::string& config, const std::string& layout);
std::string bounds_file(const std::string& config, const std::string& layout);
Ensemble load_ensemble(const std::string& config, const std::string& layout);  // as recorded, or an Error

// Verified: the files are those of the manifest, the bounds follow from the ensemble byte for byte, and the
// inventory is what this program computes now. Errors name what differs.
FullModelBounds load_bounds(const std::string& config, const std::string& layout = "tiny");

}  // namespace h3
