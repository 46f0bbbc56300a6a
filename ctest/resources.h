// Which GPUs CTest gave to a gate of several. Without a --resource-spec-file CTest starts such a test all the
// same and says nothing: the gate has to notice.
#pragma once

#include <string>
#include <vector>

#include "model/json.h"

namespace h3::gate {

// GPUs that a process started here would see: the entries of CUDA_VISIBLE_DEVICES, else all of the machine.
std::vector<std::string> visible_gpus();

// For ctest --resource-spec-file: one slot per GPU, its id the place among the visible ones (CTest allows no
// UUID).
nlohmann::ordered_json resource_spec(const std::vector<std::string>& visible);

// What CTEST_RESOURCE_GROUP_* assign, as entries for CUDA_VISIBLE_DEVICES; none without a resource file.
// Errors: a group without a GPU, or one that is not visible.
std::vector<std::string> assigned_gpus(const std::vector<std::string>& visible);

// Of a gate that needs `count` GPUs: why it must not run, or "". Where the machine has fewer, its cases say
// so.
std::string refused_without_gpus(std::size_t count, const std::vector<std::string>& assigned,
                                 const std::vector<std::string>& visible);

}  // namespace h3::gate
