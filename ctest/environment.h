// Where a gate ran: what a reader of its evidence has to know of the machine, and nothing that names its
// owner (no host, user, path or serial number).
#pragma once

#include <nlohmann/json.hpp>

namespace h3::gate {

// {"os", "kernel", "cpu", "cores", "memory_gib", "compiler", "driver", "cuda_driver", "gpus": [{"name",
// "memory_gib", "ecc", "sm_clock_mhz", "sm_clock_max_mhz", "power_limit_w"}]}. What cannot be read is null; a
// machine without NVIDIA's management library (libnvidia-ml) has no driver and no gpus.
nlohmann::ordered_json environment();

}  // namespace h3::gate
