#include "harness/provider_record.h"

#include <algorithm>
#include <cstring>

#include "fixtures/hdf5.h"
#include "model/digest.h"

namespace h3 {
namespace {

ProviderNode load_node(const Hdf5Reader& file, const std::string& path) {
  ProviderNode node;
  node.sha256 = file.string_attribute(path, "sha256");
  node.xxh3_128 = file.string_attribute(path, "xxh3_128");
  node.repeats = file.int_attribute(path, "repeats_bitwise") != 0;
  node.relative_l2 = file.double_attribute(path, "relative_l2_to_fp64");
  node.max_abs = file.double_attribute(path, "max_abs_to_fp64");
  node.row_digests = file.read_vector<std::uint64_t>(path + "/row_digests");
  node.sampled_rows = file.read_vector<std::int64_t>(path + "/sampled_rows");
  node.rows = file.read(path + "/rows");
  const auto shape = file.ints_attribute(path, "shape");
  require(shape.size() == 2 && std::int64_t(node.row_digests.size()) == shape[0] &&
              node.rows.shape() == Shape{std::int64_t(node.sampled_rows.size()), shape[1]},
          "{}: {}: row digests and sampled rows do not fit the recorded shape", file.path(), path);
  return node;
}

}  // namespace

std::string Drift::to_string() const {
  std::string text = node;
  if (row >= 0) text += fmt::format(" row {}", row);
  if (head >= 0) text += fmt::format(" head {}", head);
  if (element >= 0) text += fmt::format(" element {}", element);
  return detail.empty() ? text : text + ": " + detail;
}

std::optional<ProviderRecord> ProviderRecord::load(const std::filesystem::path& path,
                                                   const std::string& layout) {
  if (!std::filesystem::exists(path)) return {};
  const Hdf5Reader file(path.string());
  const std::string root = "/" + layout;
  if (!file.contains(root)) return {};
  ProviderRecord record;
  record.weights_ = file.string_attribute("/", "weights");
  record.environment_ =
      fmt::format("diffusers {}, torch {}, cuDNN {}, {}", file.string_attribute("/", "diffusers"),
                  file.string_attribute("/", "torch"), file.string_attribute("/", "cudnn"),
                  file.string_attribute("/", "device"));
  for (const auto& name : file.list(root + "/inputs"))
    record.input_sha256_[name] = file.string_attribute(root + "/inputs/" + name, "sha256");
  for (const auto& name : file.list(root + "/boundaries"))
    record.boundary_sha256_[name] = file.string_attribute(root + "/boundaries/" + name, "sha256");
  for (const auto& name : file.list(root + "/nodes"))
    record.nodes_[name] = load_node(file, root + "/nodes/" + name);
  return record;
}

std::string ProviderRecord::mismatch(const std::string& weights,
                                     const std::map<std::string, Tensor>& inputs) const {
  if (weights != weights_) return fmt::format("weights are {}, recorded with {}", weights, weights_);
  for (const auto& [name, tensor] : inputs) {
    const auto recorded = input_sha256_.find(name);
    if (recorded != input_sha256_.end() && sha256_hex(tensor.byte_span()) != recorded->second)
      return fmt::format("input {} has other bytes", name);
  }
  return {};
}

const ProviderNode& ProviderRecord::node(const std::string& name) const {
  const auto found = nodes_.find(name);
  require(found != nodes_.end(), "provider record: no node '{}'", name);
  return found->second;
}

ProviderVerdict ProviderRecord::judge(const Node& node, const Tensor& candidate, const std::string& sha256,
                                      std::int64_t head_dim) const {
  const ProviderNode& recorded = this->node(node.name);
  const std::int64_t rows = std::int64_t(recorded.row_digests.size()), cols = recorded.rows.cols();
  require(candidate.dtype() == DType::bf16 && candidate.elements() == rows * cols,
          "node {}: {} {} where the provider recorded bf16 {}x{}", node.name, name_of(candidate.dtype()),
          to_string(candidate.shape()), rows, cols);
  ProviderVerdict verdict;
  verdict.equal = sha256 == recorded.sha256;
  verdict.sampled_elements = recorded.rows.elements();
  if (verdict.equal) return verdict;

  verdict.first = Drift{node.name, -1, -1, -1, "digest differs"};
  const std::size_t stride = std::size_t(cols) * sizeof(Bf16);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::span bytes(candidate.bytes() + std::size_t(row) * stride, stride);
    if (xxh3_64(bytes) == recorded.row_digests[std::size_t(row)]) continue;
    if (verdict.rows_differing++ == 0) verdict.first->row = row;
  }
  for (std::size_t i = 0; i < recorded.sampled_rows.size(); ++i) {
    const std::int64_t row = recorded.sampled_rows[i];
    const Bf16* expected = recorded.rows.data<Bf16>() + std::int64_t(i) * cols;
    const Bf16* got = candidate.data<Bf16>() + row * cols;
    for (std::int64_t column = 0; column < cols; ++column) {
      if (expected[column] == got[column]) continue;
      ++verdict.elements_differing;
      if (verdict.first->element >= 0) continue;
      // The first recorded element that differs; its row may lie after the first differing row.
      *verdict.first = {
          node.name, row, node.cols % head_dim == 0 && candidate.shape().size() == 3 ? column / head_dim : -1,
          column, fmt::format("provider {}, got {}", to_float(expected[column]), to_float(got[column]))};
    }
  }
  return verdict;
}

bool ProviderRecord::boundary_equal(const std::string& name, const Tensor& tensor) const {
  const auto found = boundary_sha256_.find(name);
  require(found != boundary_sha256_.end(), "provider record: no boundary '{}'", name);
  return sha256_hex(tensor.byte_span()) == found->second;
}

}  // namespace h3
