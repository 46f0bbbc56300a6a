// Detection power as people and programs read it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/power/controls/control.h"
#include "harness/power/detection_floor.h"
#include "harness/power/false_alarms.h"
#include "harness/power/mutants.h"
#include "harness/power/summation_order.h"
#include "model/json.h"

namespace h3 {

struct ControlsReport {
  struct Entry {
    const Control* control;
    std::optional<ControlResult> result;  // absent: a case of a gate holds it
    bool detected() const { return !result || h3::detected(*control, *result); }
  };
  std::vector<Entry> entries;

  bool all_detected() const;
};

std::string to_table(const ControlsReport& report, bool colour);
nlohmann::ordered_json to_json(const ControlsReport& report);

std::string to_table(const std::vector<TensorFloors>& tensors);
nlohmann::ordered_json to_json(const std::vector<TensorFloors>& tensors);

std::string to_table(const std::vector<OrderCertificate>& certificates, bool colour);
nlohmann::ordered_json to_json(const std::vector<OrderCertificate>& certificates);

std::string to_table(const std::vector<AlarmCount>& counts);
nlohmann::ordered_json to_json(const std::vector<AlarmCount>& counts);

// The record of an engine beside the catalogue: killed by kind of fault, and every survivor with its reason.
std::string to_table(const MutantRecord& record, const MutantCatalogue& catalogue);
nlohmann::ordered_json to_json(const MutantRecord& record, const MutantCatalogue& catalogue);

}  // namespace h3
