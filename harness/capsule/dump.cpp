#include "harness/capsule/dump.h"

#include <algorithm>

#include "fixtures/hdf5.h"
#include "model/json.h"
#include "model/safetensors.h"

namespace h3 {
namespace {

constexpr const char* kSchema = "h3.dump_names.v1";

bool has_gradient(const std::string& input) {
  return input != "adaln_indices" && input != "rotary_cos" && input != "rotary_sin";
}

Shape without_leading_ones(Shape shape) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

}  // namespace

std::vector<std::string> forward_values(const Graph& graph) {
  std::vector<std::string> values = graph.inputs;
  for (const Node& node : graph.nodes) values.push_back(node.name);
  return values;
}

std::vector<std::string> backward_values(const Graph& graph) {
  std::vector<std::string> values = {graph.nodes.back().name};
  const auto add = [&](const std::string& value) {
    if (has_gradient(value) && std::ranges::count(values, value) == 0) values.push_back(value);
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    for (const auto& parameter : node->parameters) add(parameter);
    for (const auto& input : node->inputs)
      if (std::none_of(graph.nodes.begin(), node.base() - 1,
                       [&](const Node& earlier) { return std::ranges::count(earlier.inputs, input) > 0; }))
        add(input);
  }
  return values;
}

DumpNames read_dump_names(const std::string& path) {
  const auto json = read_json(path);
  require(json.is_object() && json.value("schema", nlohmann::json()) == kSchema,
          "{}: no names of a dump (schema {})", path, kSchema);
  DumpNames names;
  try {
    if (json.contains("names")) json["names"].get_to(names.names);
    if (json.contains("absent")) json["absent"].get_to(names.absent);
  } catch (const nlohmann::json::exception&) {
    fail("{}: expected names, an object of texts, and absent, a list of texts", path);
  }
  for (const auto& [key, unused] : json.items())
    require(key == "schema" || key == "names" || key == "absent", "{}: '{}' is no field of it", path, key);
  return names;
}

class Dump::File {
 public:
  virtual ~File() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual Tensor tensor(const std::string& name) const = 0;
  virtual std::string metadata(const std::string& key) const = 0;
};

class Dump::Safetensors : public Dump::File {
 public:
  explicit Safetensors(const std::string& path) : file_(path) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const StoredTensor& stored : file_.tensors()) all.push_back(stored.name);
    return all;
  }
  Tensor tensor(const std::string& name) const override { return file_.tensor(name); }
  std::string metadata(const std::string& key) const override {
    const auto found = file_.metadata().find(key);
    return found == file_.metadata().end() ? "" : found->second;
  }

 private:
  SafetensorsFile file_;
};

class Dump::Hdf5 : public Dump::File {
 public:
  explicit Hdf5(const std::string& path) : file_(path) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& dataset : file_.datasets()) all.push_back(dataset.substr(1));
    return all;
  }
  Tensor tensor(const std::string& name) const override { return file_.read("/" + name); }
  std::string metadata(const std::string& key) const override {
    return file_.has_attribute("/", key) ? file_.string_attribute("/", key) : "";
  }

 private:
  Hdf5Reader file_;
};

Dump::~Dump() = default;

Dump::Dump(const std::string& path, const Graph& graph, const std::string& names_file) : path_(path) {
  if (is_hdf5(path))
    file_ = std::make_unique<Hdf5>(path);
  else
    file_ = std::make_unique<Safetensors>(path);

  const std::vector<std::string> forward = forward_values(graph), backward = backward_values(graph);
  std::vector<std::string> values = forward;
  for (const auto& value : backward) values.push_back(kGradientPrefix + value);
  const std::set<std::string> known(values.begin(), values.end());
  const std::vector<std::string> listed = file_->names();
  const std::set<std::string> stored(listed.begin(), listed.end());

  const DumpNames names = names_file.empty() ? DumpNames() : read_dump_names(names_file);
  for (const auto& [value, tensor] : names.names) {
    require(known.contains(value), "{}: '{}' is no value of {}", names_file, value, graph.name);
    require(stored.contains(tensor), "{}: no tensor '{}', which {} binds to {}", path, tensor, names_file,
            value);
    require(!names.absent.contains(value), "{}: {} is bound and absent", names_file, value);
    bound_[value] = tensor;
  }
  for (const auto& value : names.absent)
    require(known.contains(value), "{}: '{}' is no value of {}", names_file, value, graph.name);
  if (names_file.empty())
    for (const auto& tensor : stored)
      require(known.contains(tensor), "{}: tensor '{}' is no value of {}; bind it with a names file", path,
              tensor, graph.name);

  for (const auto& value : values)
    if (!bound_.contains(value) && !names.absent.contains(value) && stored.contains(value))
      bound_[value] = value;
  has_gradients_ =
      std::ranges::any_of(backward, [&](const auto& value) { return has(kGradientPrefix + value); });
  for (const auto& value : values) {
    const bool needed = has_gradients_ || !value.starts_with(kGradientPrefix);
    require(!needed || has(value) || names.absent.contains(value),
            "{}: no tensor '{}': bind it, or state it absent, in a names file", path, value);
  }
}

std::string Dump::metadata(const std::string& key) const { return file_->metadata(key); }

std::int64_t Dump::rows(const std::string& value) const {
  return without_leading_ones(file_->tensor(bound_.at(value)).shape()).front();
}

Tensor Dump::tensor(const std::string& value, DType dtype, const Shape& shape) const {
  const Tensor stored = file_->tensor(bound_.at(value));
  const std::string& name = bound_.at(value);
  require(stored.dtype() == dtype, "{}: {} is {}, expected {}", path_, name, name_of(stored.dtype()),
          name_of(dtype));
  const Shape found = without_leading_ones(stored.shape()), expected = without_leading_ones(shape);
  std::int64_t elements = 1;
  for (const auto extent : expected) elements *= extent;
  // A row of temb makes one table row per tag: the provider has them side by side.
  const bool tags_beside = value.ends_with("adaln_projection") && found.front() * kTags == expected.front();
  require(stored.elements() == elements && (found.front() == expected.front() || tags_beside),
          "{}: {} is {}, expected {}", path_, name, to_string(stored.shape()), to_string(shape));
  return stored.reshaped(shape);
}

}  // namespace h3
