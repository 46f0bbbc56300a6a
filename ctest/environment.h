// Where a gate ran: what a reader of its evidence has to know of the machine, and nothing that names its
// owner (no host, user, path or serial number).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/json.h"

namespace h3::gate {

// {"os", "kernel", "cpu", "cores", "memory_gib", "compiler", "driver", "cuda_driver", "gpus": [{"name",
// "memory_gib", "compute_capability", "ecc", "mig", "persistence", "sm_clock_mhz", "sm_clock_max_mhz",
// "power_limit_w"}]}. What cannot be read is null; a machine without NVIDIA's management library
// (libnvidia-ml) has no driver and no gpus.
nlohmann::ordered_json environment();

// What a run can change, one object a GPU: {"sm_clock_mhz", "memory_clock_mhz", "clock_event_reasons" (NVML's
// bits), "temperature_c", "ecc_corrected", "ecc_uncorrected" (since the driver was loaded)}.
nlohmann::ordered_json gpu_states();

// environment() with what gpu_states() said before the run and says now: "before" and "after" of each GPU.
nlohmann::ordered_json environment_after(const nlohmann::ordered_json& states_before);

// What must not leave this machine: ("serial" or "uuid", value) of each GPU.
std::vector<std::pair<std::string, std::string>> gpu_identities();

}  // namespace h3::gate
