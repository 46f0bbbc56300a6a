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
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/full_model/full_model_ensemble.h"
#include "model/dtype.h"

namespace h3 {

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
