// One sealed trajectory for the cases that read it, and copies of such files in which something was changed.
#pragma once

#include <cmath>
#include <functional>

#include "conformance/generation/reduced.h"

namespace h3 {

// Four evaluations, sealed once for all cases of a process.
inline const std::string& sealed() {
  static const Scratch scratch;
  static const std::string path = [] {
    const GenerationContract contract = parse_contract(short_contract_text(4), "short");
    const RunIdentity identity = run_identity(contract, 42, "cpu");
    begin_run(scratch.path("run"), contract, identity, "build");
    continue_run(scratch.path("run"), identity, "build", evaluate_reduced);
    return trajectory_of_run(scratch.path("run"));
  }();
  return path;
}

// What a copy has changed, by name: a tensor, or the text of an attribute.
struct Change {
  std::function<void(const std::string& dataset, Tensor& tensor)> tensor = {};
  std::function<void(const std::string& object, const std::string& name, std::string& text)> text = {};
};

inline void copy_changed(const std::string& from_path, const std::string& to, const Change& change,
                         const std::vector<std::string>& of_root, const std::vector<std::string>& of_step,
                         const std::vector<std::string>& numbers_of_root = {}) {
  const Hdf5Reader from(from_path);
  Hdf5Writer copy(to);
  const auto copy_text = [&](const std::string& object, const std::string& name) {
    std::string text = from.string_attribute(object, name);
    if (change.text) change.text(object, name, text);
    copy.attribute(object, name, text);
  };
  for (const std::string& name : of_root) copy_text("/", name);
  for (const std::string& name : numbers_of_root) copy.attribute("/", name, from.int_attribute("/", name));
  for (const std::string& dataset : from.datasets()) {
    Tensor tensor = from.read(dataset).clone();
    if (change.tensor) change.tensor(dataset, tensor);
    copy.write(dataset.substr(dataset.front() == '/'), tensor);
  }
  for (const std::string& group : from.list())
    if (group.starts_with("step_")) {
      copy.group(group);
      for (const std::string& name : of_step) copy_text(group, name);
    }
  copy.close();
}

// One element of the named datasets.
inline Change one_element(std::vector<std::string> datasets, std::int64_t element, float (*change)(float)) {
  return {.tensor = [=](const std::string& dataset, Tensor& tensor) {
    for (const std::string& wanted : datasets)
      if (dataset.ends_with(wanted)) {
        float& value = tensor.data<float>()[std::min(element, tensor.elements() - 1)];
        value = change(value);
      }
  }};
}

// By one unit in the last place.
inline Change nudged(std::vector<std::string> datasets, std::int64_t element = 5) {
  return one_element(std::move(datasets), element, [](float value) { return std::nextafter(value, 100.0f); });
}

// With the other sign: more than a step's own rounding can lose.
inline Change negated(std::vector<std::string> datasets, std::int64_t element = 5) {
  return one_element(std::move(datasets), element, [](float value) { return -value; });
}

inline Change retold(const std::string& object, const std::string& name) {
  return {.text = [=](const std::string& o, const std::string& n, std::string& text) {
    if (o == object && n == name) text.back() = text.back() == '0' ? '1' : '0';
  }};
}

}  // namespace h3
