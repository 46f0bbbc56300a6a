#include "harness/compare/provider_record.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "fixtures/hdf5.h"
#include "harness/compare/compare.h"
#include "model/digest.h"

namespace h3 {
namespace {

RecordedBytes load_bytes(const Hdf5Reader& file, const std::string& path, DType dtype, const Shape& shape) {
  RecordedBytes bytes{.dtype = dtype, .height = shape.at(0)};
  bytes.sha256 = file.string_attribute(path, "sha256");
  bytes.xxh3_128 = file.string_attribute(path, "xxh3_128");
  if (file.has_attribute(path, "rows_per_digest"))
    bytes.rows_per_digest = file.int_attribute(path, "rows_per_digest");
  bytes.row_digests = file.read_vector<std::uint64_t>(path + "/row_digests");
  bytes.sampled_rows = file.read_vector<std::int64_t>(path + "/sampled_rows");
  const std::int64_t per_digest = bytes.rows_per_digest, height = shape.at(0);
  require(per_digest > 0 && std::int64_t(bytes.row_digests.size()) == (height + per_digest - 1) / per_digest,
          "{}: {}: {} row digests do not fit {} rows", file.path(), path, bytes.row_digests.size(), height);
  for (const std::int64_t row : bytes.sampled_rows)
    require(row >= 0 && row < height, "{}: {}: sampled row {} of {}", file.path(), path, row, height);
  bytes.rows = file.read(path + "/rows", dtype, {std::int64_t(bytes.sampled_rows.size()), shape.at(1)});
  return bytes;
}

ProviderNode load_node(const Hdf5Reader& file, const std::string& path) {
  const auto shape = file.ints_attribute(path, "shape");
  require(shape.size() == 2, "{}: {}: shape {} where rows and columns are expected", file.path(), path,
          to_string(shape));
  ProviderNode node{load_bytes(file, path, DType::bf16, shape)};
  node.repeats = file.int_attribute(path, "repeats_bitwise") != 0;
  node.relative_l2 = file.double_attribute(path, "relative_l2_to_fp64");
  node.max_abs = file.double_attribute(path, "max_abs_to_fp64");
  return node;
}

ProviderGradient load_gradient(const Hdf5Reader& file, const std::string& path) {
  const std::string dtype = file.string_attribute(path, "dtype");
  require(dtype == name_of(DType::bf16) || dtype == name_of(DType::fp32), "{}: {}: dtype {}", file.path(),
          path, dtype);
  ProviderGradient gradient{
      .dtype = dtype == name_of(DType::bf16) ? DType::bf16 : DType::fp32,
      .shape = {file.int_attribute(path, "height"), file.int_attribute(path, "width")},
      .elements_moved = file.int_attribute(path, "elements_moved"),
      .relative_l2 = file.double_attribute(path, "relative_l2_to_fp64"),
      .max_abs = file.double_attribute(path, "max_abs_to_fp64"),
      .absmax = file.double_attribute(path, "absmax_of_fp64"),
      .max_ulp = std::uint64_t(file.int_attribute(path, "max_ulp_to_fp64")),
  };
  require(gradient.absmax > 0 && std::isfinite(gradient.absmax), "{}: {}: largest gradient is {}",
          file.path(), path, gradient.absmax);
  if (gradient.elements_moved == 0) gradient.bytes = load_bytes(file, path, gradient.dtype, gradient.shape);
  return gradient;
}

ProviderSource load_source(const Hdf5Reader& file, const std::string& root) {
  ProviderSource source;
  source.weights = file.string_attribute("/", "weights");
  source.environment =
      fmt::format("diffusers {}, torch {}, cuDNN {}, {}", file.string_attribute("/", "diffusers"),
                  file.string_attribute("/", "torch"), file.string_attribute("/", "cudnn"),
                  file.string_attribute("/", "device"));
  for (const auto& name : file.list(root + "/inputs"))
    source.input_sha256[name] = file.string_attribute(root + "/inputs/" + name, "sha256");
  return source;
}

}  // namespace

std::string Drift::to_string() const {
  std::string text = node;
  if (row >= 0) text += fmt::format(" row {}", row);
  if (head >= 0) text += fmt::format(" head {}", head);
  if (element >= 0) text += fmt::format(" element {}", element);
  return detail.empty() ? text : text + ": " + detail;
}

ProviderVerdict judge(const std::string& name, const RecordedBytes& recorded, const Tensor& candidate,
                      const std::string& sha256, std::int64_t head_dim) {
  const std::int64_t rows = recorded.height, cols = recorded.rows.cols();
  require(candidate.dtype() == recorded.dtype && candidate.elements() == rows * cols,
          "{}: {} {} where the provider recorded {} {}x{}", name, name_of(candidate.dtype()),
          to_string(candidate.shape()), name_of(recorded.dtype), rows, cols);
  ProviderVerdict verdict;
  verdict.equal = sha256 == recorded.sha256;
  verdict.sampled_elements = recorded.rows.elements();
  if (verdict.equal) return verdict;

  verdict.first = Drift{name, -1, -1, -1, "digest differs"};
  const std::int64_t width = std::int64_t(size_of(recorded.dtype)), stride = cols * width;
  for (std::size_t i = 0; i < recorded.row_digests.size(); ++i) {
    const std::int64_t first = std::int64_t(i) * recorded.rows_per_digest,
                       count = std::min(recorded.rows_per_digest, rows - first);
    const std::span bytes(candidate.bytes() + first * stride, std::size_t(count * stride));
    if (xxh3_64(bytes) == recorded.row_digests[i]) continue;
    if (verdict.rows_differing == 0) verdict.first->row = first;
    verdict.rows_differing += count;
  }
  for (std::size_t i = 0; i < recorded.sampled_rows.size(); ++i) {
    const std::int64_t row = recorded.sampled_rows[i];
    for (std::int64_t column = 0; column < cols; ++column) {
      const std::int64_t expected = std::int64_t(i) * cols + column, got = row * cols + column;
      if (std::memcmp(recorded.rows.bytes() + expected * width, candidate.bytes() + got * width,
                      std::size_t(width)) == 0)
        continue;
      ++verdict.elements_differing;
      if (verdict.first->element >= 0) continue;
      // The first recorded element that differs; its row may lie after the first differing row.
      *verdict.first = {name, row, head_dim > 0 ? column / head_dim : -1, column,
                        fmt::format("provider {}, got {}", recorded.rows.at(expected), candidate.at(got))};
    }
  }
  return verdict;
}

Bound ProviderGradient::bound() const {
  constexpr double kFactor = 1.5, kSlack = 5e-3, kUlps = 6;
  double largest = kFactor * max_abs + kSlack * absmax;
  if (dtype == DType::bf16)
    largest = std::max(largest, max_abs + kUlps * std::ldexp(1, std::ilogb(absmax) - 7));
  return {.relative_l2 = kFactor * relative_l2 + kSlack, .max_abs = largest};
}

std::string ProviderSource::mismatch(const std::string& other_weights,
                                     const std::map<std::string, Tensor>& inputs) const {
  if (other_weights != weights)
    return fmt::format("weights are {}, recorded with {}", other_weights, weights);
  for (const auto& [name, tensor] : inputs) {
    const auto recorded = input_sha256.find(name);
    if (recorded != input_sha256.end() && sha256_hex(tensor.byte_span()) != recorded->second)
      return fmt::format("input {} has other bytes", name);
  }
  return {};
}

std::optional<ProviderRecord> ProviderRecord::load(const std::filesystem::path& path,
                                                   const std::string& layout) {
  if (!std::filesystem::exists(path)) return {};
  const Hdf5Reader file(path.string());
  const std::string root = "/" + layout;
  if (!file.contains(root)) return {};
  ProviderRecord record;
  record.source_ = load_source(file, root);
  for (const auto& name : file.list(root + "/boundaries"))
    record.boundary_sha256_[name] = file.string_attribute(root + "/boundaries/" + name, "sha256");
  for (const auto& name : file.list(root + "/nodes"))
    record.nodes_[name] = load_node(file, root + "/nodes/" + name);
  return record;
}

const ProviderNode& ProviderRecord::node(const std::string& name) const {
  const auto found = nodes_.find(name);
  require(found != nodes_.end(), "provider record: no node '{}'", name);
  return found->second;
}

ProviderVerdict ProviderRecord::judge(const Node& node, const Tensor& candidate, const std::string& sha256,
                                      std::int64_t head_dim) const {
  const bool heads = node.cols % head_dim == 0 && candidate.shape().size() == 3;
  return h3::judge(node.name, this->node(node.name), candidate, sha256, heads ? head_dim : 0);
}

bool ProviderRecord::boundary_equal(const std::string& name, const Tensor& tensor) const {
  const auto found = boundary_sha256_.find(name);
  require(found != boundary_sha256_.end(), "provider record: no boundary '{}'", name);
  return sha256_hex(tensor.byte_span()) == found->second;
}

std::optional<ProviderGradients> ProviderGradients::load(const std::filesystem::path& path,
                                                         const std::string& layout) {
  if (!std::filesystem::exists(path)) return {};
  const Hdf5Reader file(path.string());
  const std::string root = "/" + layout;
  if (!file.contains(root)) return {};
  ProviderGradients record;
  record.source_ = load_source(file, root);
  for (const auto& name : file.list(root + "/gradients"))
    record.gradients_[name] = load_gradient(file, root + "/gradients/" + name);
  return record;
}

const ProviderGradient& ProviderGradients::gradient(const std::string& name) const {
  const auto found = gradients_.find(name);
  require(found != gradients_.end(), "provider record: no gradient '{}'", name);
  return found->second;
}

std::optional<ProviderVerdict> ProviderGradients::judge(const std::string& name, const Tensor& candidate,
                                                        const std::string& sha256,
                                                        std::int64_t head_dim) const {
  const ProviderGradient& recorded = gradient(name);
  if (!recorded.bytes) return {};
  return h3::judge(name, *recorded.bytes, candidate, sha256, head_dim);
}

}  // namespace h3
