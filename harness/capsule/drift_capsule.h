// The first node of a replay that leaves its strict row, as a capsule.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "harness/replay/replay.h"

namespace h3 {

class FirstDrift {
 public:
  explicit FirstDrift(const ReplayRequest& request);
  ~FirstDrift();

  // Of replay_block: holds every node that is not the CPU twin's own work against the twin, on the engine's
  // own inputs, until one differs.
  ReplayObserver observer();
  // The same of the backward, in a walk of its own, unless the forward differs already.
  void look_at_backward(const ReplayProgress& progress = {});

  // Reduces it, asking the engine again on smaller operands. The capsule's path; nothing when no node
  // differs.
  std::optional<std::string> write(const std::string& folder) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace h3
