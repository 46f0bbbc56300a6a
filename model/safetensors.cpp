#include "model/safetensors.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <tuple>

#include "model/atomic_file.h"
#include "model/json.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLengthBytes = 8, kLongestHeader = 100'000'000;

struct TypeName {
  DType dtype;
  std::string_view name;
};
constexpr TypeName kTypeNames[] = {{DType::bf16, "BF16"},
                                   {DType::fp16, "F16"},
                                   {DType::fp32, "F32"},
                                   {DType::fp64, "F64"},
                                   {DType::i64, "I64"}};

// What an error may repeat: it stays one line.
bool is_printable(std::string_view text) {
  return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

DType dtype_from(std::string_view name, const std::string& where) {
  for (const TypeName& type : kTypeNames)
    if (type.name == name) return type.dtype;
  require(is_printable(name), "{}: its dtype holds a control character", where);
  fail("{}: dtype {} is not supported (BF16, F16, F32, F64, I64 are)", where, name);
}

std::string_view type_name(DType dtype) {
  return std::ranges::find(kTypeNames, dtype, &TypeName::dtype)->name;
}

// The whole file, mapped; empty files map to nothing.
std::shared_ptr<std::byte> map_file(const std::string& path, std::uint64_t& size_bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, "{}: cannot open: {}", path, std::strerror(errno));
  const std::shared_ptr<void> closer(nullptr, [file](void*) { ::close(file); });
  struct stat status {};
  require(::fstat(file, &status) == 0 && S_ISREG(status.st_mode), "{}: not a regular file", path);
  size_bytes = std::uint64_t(status.st_size);
  if (size_bytes == 0) return nullptr;
  void* memory = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, file, 0);
  require(memory != MAP_FAILED, "{}: cannot map {} bytes: {}", path, size_bytes, std::strerror(errno));
  return {static_cast<std::byte*>(memory), [size_bytes](std::byte* p) { ::munmap(p, size_bytes); }};
}

std::uint64_t little_endian(const std::byte* bytes) {
  std::uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | std::uint64_t(bytes[i]);
  return value;
}

// Bytes of a shape, or a failure where they do not fit 63 bits.
std::uint64_t checked_bytes(const Shape& shape, DType dtype, const std::string& where) {
  std::int64_t bytes = std::int64_t(size_of(dtype));
  for (const std::int64_t extent : shape)
    require(!__builtin_mul_overflow(bytes, extent, &bytes), "{}: shape {} overflows", where,
            to_string(shape));
  return std::uint64_t(bytes);
}

StoredTensor parse_entry(const std::string& name, const nlohmann::json& entry, const std::string& where) {
  const auto is_count = [](const nlohmann::json& value) {
    return value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t(INT64_MAX);
  };
  const auto is_list = [&](const char* key) {
    return entry.contains(key) && entry[key].is_array() &&
           std::all_of(entry[key].begin(), entry[key].end(), is_count);
  };
  require(entry.is_object() && entry.size() == 3 && entry.contains("dtype") && entry["dtype"].is_string() &&
              is_list("shape") && is_list("data_offsets") && entry["data_offsets"].size() == 2,
          "{}: expected a dtype, a shape and two data_offsets", where);
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype_from(entry["dtype"].get_ref<const std::string&>(), where);
  entry["shape"].get_to(tensor.shape);
  tensor.begin = entry["data_offsets"][0];
  tensor.end = entry["data_offsets"][1];
  return tensor;
}

void check_layout(const std::vector<StoredTensor>& tensors, std::uint64_t data_bytes,
                  const std::string& path) {
  std::uint64_t covered = 0;
  const StoredTensor* previous = nullptr;
  for (const StoredTensor& tensor : tensors) {
    const std::string after =
        previous ? fmt::format("'{}' ends at {}", previous->name, covered) : "the data begins at 0";
    require(tensor.begin >= covered, "{}: tensor '{}' begins at {}, but {}: they overlap", path, tensor.name,
            tensor.begin, after);
    require(tensor.begin <= covered, "{}: tensor '{}' begins at {}, but {}: there is a gap", path,
            tensor.name, tensor.begin, after);
    covered = tensor.end;
    previous = &tensor;
  }
  require(covered == data_bytes, "{}: {} bytes follow the last tensor, which ends at {} of {}", path,
          data_bytes - covered, covered, data_bytes);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : path_(path), mapping_(map_file(path, size_bytes_)) {
  require(size_bytes_ >= kLengthBytes, "{}: {} bytes, too short for a safetensors header", path, size_bytes_);
  const std::uint64_t header_bytes = little_endian(mapping_.get());
  require(header_bytes <= kLongestHeader, "{}: header of {} bytes, the format allows {}", path, header_bytes,
          kLongestHeader);
  require(header_bytes <= size_bytes_ - kLengthBytes, "{}: header of {} bytes ends past the file's {} bytes",
          path, header_bytes, size_bytes_);
  data_begin_ = kLengthBytes + header_bytes;
  const std::uint64_t data_bytes = size_bytes_ - data_begin_;
  const std::string_view text(reinterpret_cast<const char*>(mapping_.get()) + kLengthBytes, header_bytes);
  require(text.starts_with('{'), "{}: the header does not begin with '{{'", path);

  const nlohmann::json header = parse_json(text, path);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      const bool texts = entry.is_object() && std::all_of(entry.begin(), entry.end(), [](const auto& value) {
                           return value.is_string();
                         });
      require(texts, "{}: __metadata__ is not a map of texts", path);
      entry.get_to(metadata_);
      continue;
    }
    require(is_printable(name), "{}: the name of a tensor holds a control character", path);
    const std::string where = fmt::format("{}: tensor '{}'", path, name);
    StoredTensor tensor = parse_entry(name, entry, where);
    require(tensor.begin <= tensor.end, "{}: begins at {} after its end {}", where, tensor.begin, tensor.end);
    require(tensor.end <= data_bytes, "{}: ends at {}, past the file's {} bytes of data", where, tensor.end,
            data_bytes);
    const std::uint64_t needed = checked_bytes(tensor.shape, tensor.dtype, where);
    require(tensor.end - tensor.begin == needed, "{}: {} of {} needs {} bytes, has {}", where,
            to_string(tensor.shape), type_name(tensor.dtype), needed, tensor.end - tensor.begin);
    tensors_.push_back(std::move(tensor));
  }
  std::ranges::sort(tensors_, {}, [](const StoredTensor& t) { return std::tie(t.begin, t.end, t.name); });
  check_layout(tensors_, data_bytes, path);
  for (std::size_t i = 0; i < tensors_.size(); ++i) places_[tensors_[i].name] = i;
}

const StoredTensor* SafetensorsFile::find(const std::string& name) const {
  const auto place = places_.find(name);
  return place == places_.end() ? nullptr : &tensors_[place->second];
}

Tensor SafetensorsFile::tensor(const std::string& name) const {
  const StoredTensor* stored = find(name);
  require(stored, "{}: no tensor '{}'", path_, name);
  std::byte* first = mapping_.get() + data_begin_ + stored->begin;
  const Tensor view(stored->dtype, stored->shape, std::shared_ptr<std::byte>(mapping_, first));
  return reinterpret_cast<std::uintptr_t>(first) % size_of(stored->dtype) ? view.clone() : view;
}

SafetensorsIndex read_index(const std::string& path) {
  const nlohmann::json json = read_json(path);
  const auto is_object = [](const nlohmann::json& parent, const char* key) {
    return parent.is_object() && parent.contains(key) && parent[key].is_object();
  };
  require(is_object(json, "weight_map"), "{}: no weight_map", path);
  require(is_object(json, "metadata") && json["metadata"].contains("total_size") &&
              json["metadata"]["total_size"].is_number_unsigned(),
          "{}: no metadata.total_size", path);
  SafetensorsIndex index;
  json["metadata"]["total_size"].get_to(index.total_size);
  for (const auto& [name, file] : json["weight_map"].items()) {
    require(is_printable(name), "{}: the name of a tensor holds a control character", path);
    require(file.is_string(), "{}: tensor '{}' has no file name", path, name);
    const auto& text = file.get_ref<const std::string&>();
    require(is_printable(text), "{}: tensor '{}' has a file name with a control character", path, name);
    require(!text.empty() && fs::path(text).filename() == text && text != "." && text != "..",
            "{}: tensor '{}' is said to lie in '{}', expected a file in this folder", path, name, text);
    index.weight_map[name] = text;
  }
  return index;
}

SafetensorsFolder::SafetensorsFolder(const std::string& folder) : folder_(folder) {
  require(fs::is_directory(folder), "{}: not a folder", folder);
  const std::string index_path = (fs::path(folder) / kIndexName).string();
  const auto open = [&](const std::string& file) -> const SafetensorsFile& {
    auto& shard = shards_[file];
    if (!shard) shard = std::make_shared<const SafetensorsFile>((fs::path(folder) / file).string());
    return *shard;
  };
  if (!fs::exists(index_path)) {
    require(fs::exists(fs::path(folder) / kSingleName), "{}: holds neither {} nor {}", folder, kIndexName,
            kSingleName);
    for (const StoredTensor& tensor : open(kSingleName).tensors()) weight_map_[tensor.name] = kSingleName;
    return;
  }
  weight_map_ = read_index(index_path).weight_map;
  for (const auto& [name, file] : weight_map_)
    require(open(file).find(name), "{}: tensor '{}' is not in {}, where the index puts it", folder, name,
            file);
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : weight_map_) names.push_back(name);
  return names;
}

const SafetensorsFile* SafetensorsFolder::shard_of(const std::string& name) const {
  const auto place = weight_map_.find(name);
  return place == weight_map_.end() ? nullptr : shards_.at(place->second).get();
}

const StoredTensor* SafetensorsFolder::find(const std::string& name) const {
  const SafetensorsFile* shard = shard_of(name);
  return shard ? shard->find(name) : nullptr;
}

Tensor SafetensorsFolder::tensor(const std::string& name) const {
  const SafetensorsFile* shard = shard_of(name);
  require(shard, "{}: no tensor '{}'", folder_, name);
  return shard->tensor(name);
}

void write_safetensors(const std::string& path, std::vector<TensorSpec> specs, const TensorSource& source,
                       const std::map<std::string, std::string>& metadata) {
  std::ranges::sort(specs, [](const TensorSpec& a, const TensorSpec& b) {
    return std::tuple(size_of(b.dtype), std::string_view(a.name)) <
           std::tuple(size_of(a.dtype), std::string_view(b.name));
  });
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const auto& [key, text] : metadata) header["__metadata__"][key] = text;
  std::int64_t offset = 0;
  for (const TensorSpec& spec : specs) {
    require(!header.contains(spec.name), "{}: two tensors are called '{}'", path, spec.name);
    const std::int64_t end = offset + spec.size_bytes();
    header[spec.name] = {
        {"dtype", type_name(spec.dtype)}, {"shape", spec.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data then begins aligned
  require(text.size() <= kLongestHeader, "{}: header of {} bytes, the format allows {}", path, text.size(),
          kLongestHeader);

  AtomicFile file(path);
  std::byte length[kLengthBytes];
  for (std::uint64_t i = 0; i < kLengthBytes; ++i) length[i] = std::byte(text.size() >> 8 * i);
  file.write(length);
  file.write(text);
  for (const TensorSpec& spec : specs) {
    const Tensor tensor = source(spec);
    require(tensor.dtype() == spec.dtype && tensor.shape() == spec.shape,
            "{}: tensor '{}' is {} {}, expected {} {}", path, spec.name, name_of(tensor.dtype()),
            to_string(tensor.shape()), name_of(spec.dtype), to_string(spec.shape));
    file.write(tensor.byte_span());
  }
  file.commit();
}

void write_safetensors_folder(const std::string& folder, const std::vector<TensorSpec>& specs,
                              const TensorSource& source, std::uint64_t shard_bytes) {
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    require(name != kIndexName && !name.ends_with(".safetensors"), "{}: already holds {}", folder, name);
  }
  std::vector<std::vector<TensorSpec>> shards;
  std::uint64_t total = 0, in_shard = 0;
  for (const TensorSpec& spec : specs) {
    const auto bytes = std::uint64_t(spec.size_bytes());
    if (shards.empty() || in_shard + bytes > shard_bytes) {
      shards.emplace_back();
      in_shard = 0;
    }
    shards.back().push_back(spec);
    in_shard += bytes;
    total += bytes;
  }
  nlohmann::ordered_json index = {{"metadata", {{"total_size", total}}},
                                  {"weight_map", nlohmann::json::object()}};
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        fmt::format("diffusion_pytorch_model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_safetensors((fs::path(folder) / name).string(), shards[i], source);
    for (const TensorSpec& spec : shards[i]) index["weight_map"][spec.name] = name;
  }
  AtomicFile file((fs::path(folder) / kIndexName).string());
  file.write(index.dump(2) + "\n");
  file.commit();
}

}  // namespace h3
