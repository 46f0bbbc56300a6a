// Detection floors: of every kind of fault, the smallest that a bound still rejects. Sizes are fractions of
// what is spoiled: 1 is a row, a head or a modality lost as a whole, a tensor of zeros, rows permuted in
// full, a shift by the tensor's RMS, noise as strong as the tensor. A floor of 1 or more is a blind spot.
//
// Errors add to the golden itself: a candidate that has an error of its own is rejected a little earlier or,
// where the two cancel, later. Limits on the relative L2 and the largest error are proportional to the size,
// so that a floor follows from norms and nothing is searched.
#pragma once

#include <string>
#include <vector>

#include "harness/compare/compare.h"
#include "harness/replay/replay.h"

namespace h3 {

// How a compared tensor falls apart besides into rows.
struct TensorParts {
  std::int64_t head_dim = 0;                    // columns of a head; 0: it has none
  std::vector<std::int64_t> row_modality = {};  // of every row; empty: its rows have none
};

struct DetectionFloor {
  std::string fault;   // random, scaling, shift, zeros, rows_permuted, one_row, one_head, one_modality
  double typical = 0;  // of rows, heads and modalities the median, else the floor
  double worst = 0;    // the largest of them: its smallest part
  std::int64_t parts = 1, blind = 0;  // of these, with a floor of 1 or more
};

// Errors: a golden without energy, a bound with neither of the two limits.
std::vector<DetectionFloor> detection_floors(const Bound& bound, const Tensor& golden,
                                             const TensorParts& parts);

// The fault itself, of this size, added to the golden: what a floor speaks of. Of rows, heads and modalities
// the first one.
Tensor with_fault(const Tensor& golden, const TensorParts& parts, const std::string& fault, double size);

struct TensorFloors {
  std::string name;
  bool backward = false;
  Bound bound;
  bool provider_bytes = false;  // held to the provider's bytes besides: one changed bit is rejected
  std::vector<DetectionFloor> floors;
};

// Of every compared tensor of block 0, forward and backward, against the recorded bounds of a layout.
std::vector<TensorFloors> block_floors(const std::string& layout, const ReplayProgress& progress = {});

// Faults of the tensor as a whole are for the bound alone: a blind spot there, or a permutation that passes.
// Empty: none.
std::vector<std::string> blind_spots(const std::vector<TensorFloors>& tensors);

}  // namespace h3
