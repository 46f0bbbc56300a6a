// How often an honest run would be refused: block 0, narrow, again and again as another honest implementation
// would compute it, judged by the rules of the gate. The bounds come from one run of the strict rows, as they
// come from one provider, and know nothing of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace h3 {

enum class Honest {
  unchanged,       // the same run once more: every byte is the first run's
  other_order,     // every product sums over a shuffled depth, attention walks shuffled keys and queries
  rounded_inputs,  // one element in 64 of the residual stream moved to the next word
};
const char* name_of(Honest variant);

struct AlarmCount {
  Honest variant = Honest::unchanged;
  std::int64_t repeats = 0, tensors = 0;  // tensors: judged in each
  std::int64_t alarms = 0;                // repeats in which a tensor was refused
  double worst_used = 0;                  // the largest measured share of a limit ...
  std::string worst;                      // ... and its tensor
  double seconds = 0;

  // With 95 % confidence the rate of false alarms is below this.
  double upper_rate() const;
};

AlarmCount count_alarms(Honest variant, std::int64_t repeats,
                        const std::function<void(std::int64_t done)>& progress = {});

}  // namespace h3
