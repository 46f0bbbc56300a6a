// The safetensors reader against files that lie, and the writer against full disks and its own reader.
// Control tensor_offsets_invalid: begin after end, end past the file, overlap, gap; each is refused by name.
#include "model/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>

#include "conformance/scratch.h"
#include "model/digest.h"
#include "model/json.h"
#include "model/synthetic.h"

namespace h3 {
namespace {

constexpr const char* kFile = "file.safetensors";

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[std::size_t(i)] = char(length >> 8 * i);
  return bytes + rest;
}

std::string file_of(const std::string& header, std::size_t data_bytes) {
  return with_length(header.size(), header) + std::string(data_bytes, '\1');
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// ---- files that lie ----

struct LieCase {
  const char* name;
  std::string bytes;
  const char* says;  // a part of the error
};
void PrintTo(const LieCase& c, std::ostream* out) { *out << c.name; }

struct SafetensorsLies : testing::TestWithParam<LieCase> {};

TEST_P(SafetensorsLies, are_refused_with_their_reason) {
  const Scratch scratch;
  write_bytes(scratch.path(kFile), GetParam().bytes);
  const std::string error = error_of([&] { SafetensorsFile file(scratch.path(kFile)); });
  EXPECT_NE(error.find(GetParam().says), std::string::npos) << error;
  EXPECT_NE(error.find(scratch.path(kFile)), std::string::npos) << error;
  EXPECT_EQ(error.find('\n'), std::string::npos) << error;
}

const LieCase kLies[] = {
    {"empty_file", "", "0 bytes, too short"},
    {"seven_bytes", "1234567", "7 bytes, too short"},
    {"header_past_the_file", with_length(100, "{}"), "ends past the file"},
    {"header_one_past_the_file", with_length(3, "{}"), "ends past the file"},
    {"header_over_the_limit", with_length(100'000'001, "{}"), "the format allows 100000000"},
    {"header_of_2_to_the_64", with_length(UINT64_MAX, "{}"), "the format allows 100000000"},
    {"header_empty", with_length(0, ""), "does not begin with '{'"},
    {"header_not_an_object", file_of("[]", 0), "does not begin with '{'"},
    {"header_after_a_space", file_of(" {}", 0), "does not begin with '{'"},
    {"name_with_a_line_break", file_of(R"({"a\nb":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4),
     "holds a control character"},
    {"duplicate_with_a_line_break", file_of(R"({"a\nb":1,"a\nb":1})", 0), "'a\\x0Ab' appears twice"},
    {"dtype_with_a_line_break", file_of(R"({"a":{"dtype":"F\n32","shape":[1],"data_offsets":[0,4]}})", 4),
     "holds a control character"},
    {"json_cut_short", file_of(R"({"a":{"dtype":"F32")", 4), "not valid JSON"},
    {"json_followed_by_more", file_of(R"({} {})", 0), "not valid JSON"},
    {"json_bad_utf8", file_of("{\"\xff\":1}", 0), "not valid JSON"},
    {"json_nan", file_of(R"({"a":NaN})", 0), "not valid JSON"},
    {"json_too_deep", file_of(R"({"a":)" + std::string(100'000, '['), 0), "nested deeper"},
    {"duplicate_tensor",
     file_of(
         R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
         4),
     "'a' appears twice"},
    {"duplicate_field", file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
     "'dtype' appears twice"},
    {"begin_after_end", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
     "begins at 4 after its end 0"},
    {"end_past_the_file", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 4),
     "ends at 8, past the file's 4 bytes"},
    {"end_near_2_to_the_63",
     file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[9223372036854775803,9223372036854775807]}})",
             4),
     "past the file"},
    {"offset_over_2_to_the_64",
     file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551620]}})", 4),
     "expected a dtype, a shape and two data_offsets"},
    {"offset_negative", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", 4),
     "two data_offsets"},
    {"offset_a_fraction", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4.0]}})", 4),
     "two data_offsets"},
    {"three_offsets", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,4]}})", 4),
     "two data_offsets"},
    {"overlap",
     file_of(
         R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
         12),
     "'b' begins at 4, but 'a' ends at 8: they overlap"},
    {"same_place_twice",
     file_of(
         R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
         8),
     "they overlap"},
    {"gap",
     file_of(
         R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})",
         12),
     "'b' begins at 8, but 'a' ends at 4: there is a gap"},
    {"gap_at_the_start", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8),
     "'a' begins at 4, but the data begins at 0: there is a gap"},
    {"bytes_after_the_last", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5),
     "1 bytes follow the last tensor"},
    {"data_without_tensors", file_of("{}", 4), "4 bytes follow"},
    {"shape_larger_than_bytes", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
     "2 of F32 needs 8 bytes, has 4"},
    {"shape_smaller_than_bytes", file_of(R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,4]}})", 4),
     "1 of BF16 needs 2 bytes, has 4"},
    {"shape_overflows",
     file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
     "overflows"},
    {"shape_over_63_bits",
     file_of(R"({"a":{"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,0]}})", 0),
     "expected a dtype, a shape"},
    {"shape_negative", file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
     "expected a dtype, a shape"},
    {"shape_a_text", file_of(R"({"a":{"dtype":"F32","shape":"1","data_offsets":[0,4]}})", 4),
     "expected a dtype, a shape"},
    {"entry_without_dtype", file_of(R"({"a":{"shape":[1],"data_offsets":[0,4],"x":0}})", 4),
     "expected a dtype"},
    {"entry_with_more", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":0}})", 4),
     "expected a dtype"},
    {"entry_not_an_object", file_of(R"({"a":[]})", 0), "expected a dtype"},
    {"dtype_of_8_bits", file_of(R"({"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})", 4),
     "dtype F8_E4M3 is not supported"},
    {"dtype_in_small_letters", file_of(R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4),
     "dtype f32 is not supported"},
    {"metadata_not_texts", file_of(R"({"__metadata__":{"format":1}})", 0),
     "__metadata__ is not a map of texts"},
};
INSTANTIATE_TEST_SUITE_P(host, SafetensorsLies, testing::ValuesIn(kLies),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- files that are fine ----

struct FileCase {
  const char* name;
  std::string bytes;
  std::size_t tensors;
};
void PrintTo(const FileCase& c, std::ostream* out) { *out << c.name; }

struct SafetensorsFiles : testing::TestWithParam<FileCase> {};

TEST_P(SafetensorsFiles, are_read) {
  const Scratch scratch;
  write_bytes(scratch.path(kFile), GetParam().bytes);
  const SafetensorsFile file(scratch.path(kFile));
  EXPECT_EQ(file.tensors().size(), GetParam().tensors);
  for (const StoredTensor& stored : file.tensors()) {
    const Tensor tensor = file.tensor(stored.name);
    EXPECT_EQ(tensor.shape(), stored.shape);
    EXPECT_EQ(std::uintptr_t(tensor.bytes()) % size_of(stored.dtype), 0u) << stored.name;
    EXPECT_EQ(std::string(tensor.size_bytes(), '\1'),
              std::string(reinterpret_cast<const char*>(tensor.bytes()), tensor.size_bytes()));
  }
  EXPECT_EQ(file.find("not there"), nullptr);
  EXPECT_THROW(file.tensor("not there"), Error);
}

TEST_P(SafetensorsFiles, are_refused_when_cut_anywhere) {
  const Scratch scratch;
  const std::string& bytes = GetParam().bytes;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_bytes(scratch.path(kFile), bytes.substr(0, size));
    EXPECT_THROW(SafetensorsFile file(scratch.path(kFile)), Error)
        << "cut to " << size << " of " << bytes.size();
  }
}

TEST_P(SafetensorsFiles, tensors_outlive_the_file_object) {
  const Scratch scratch;
  write_bytes(scratch.path(kFile), GetParam().bytes);
  std::vector<Tensor> tensors;
  {
    const SafetensorsFile file(scratch.path(kFile));
    for (const StoredTensor& stored : file.tensors()) tensors.push_back(file.tensor(stored.name));
  }
  for (const Tensor& tensor : tensors)
    for (const std::byte byte : tensor.byte_span()) ASSERT_EQ(byte, std::byte(1));
}

const FileCase kFiles[] = {
    {"no_tensors", file_of("{}", 0), 0},
    {"metadata_only", file_of(R"({"__metadata__":{"format":"pt"}}   )", 0), 0},
    {"one_of_each_dtype",
     file_of(
         R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},"b":{"dtype":"I64","shape":[1,1],"data_offsets":[8,16]},)"
         R"("c":{"dtype":"F32","shape":[],"data_offsets":[16,20]},"d":{"dtype":"BF16","shape":[2],"data_offsets":[20,24]},)"
         R"("e":{"dtype":"F16","shape":[1],"data_offsets":[24,26]}})",
         26),
     5},
    {"an_empty_tensor",
     file_of(
         R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[3,0],"data_offsets":[0,0]}})",
         4),
     2},
    {"misaligned_data",  // 2 bytes before the F32, and a header of odd length
     file_of(
         R"({"a":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"F32","shape":[2],"data_offsets":[2,10]}} )",
         10),
     2},
};
INSTANTIATE_TEST_SUITE_P(host, SafetensorsFiles, testing::ValuesIn(kFiles),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- writing ----

struct WriteCase {
  const char* name;
  std::vector<TensorSpec> specs;
  std::uint64_t shard_bytes;
  std::size_t shards;
  const char* sha256;  // of the first shard
};
void PrintTo(const WriteCase& c, std::ostream* out) { *out << c.name; }

Tensor values_of(const TensorSpec& spec) {
  return synthetic_activation(3, spec.name, spec.shape, spec.dtype);
}

struct SafetensorsWriter : testing::TestWithParam<WriteCase> {
  const Scratch scratch;
  const WriteCase& c = GetParam();
  std::string first_shard() const {
    return scratch.path(fmt::format("diffusion_pytorch_model-00001-of-{:05}.safetensors", c.shards));
  }
};

TEST_P(SafetensorsWriter, reads_back_what_it_wrote) {
  write_safetensors_folder(scratch.folder(), c.specs, values_of, c.shard_bytes);
  const SafetensorsFolder folder(scratch.folder());
  EXPECT_EQ(folder.shards().size(), c.shards);
  EXPECT_EQ(folder.names().size(), c.specs.size());
  std::int64_t total = 0;
  for (const TensorSpec& spec : c.specs) {
    const Tensor tensor = folder.tensor(spec.name);
    EXPECT_EQ(tensor.shape(), spec.shape);
    EXPECT_EQ(xxh3_128_hex(tensor.byte_span()), xxh3_128_hex(values_of(spec).byte_span())) << spec.name;
    total += spec.size_bytes();
  }
  EXPECT_EQ(read_index(scratch.path(kIndexName)).total_size, std::uint64_t(total));
}

TEST_P(SafetensorsWriter, bytes_are_pinned) {
  write_safetensors_folder(scratch.folder(), c.specs, values_of, c.shard_bytes);
  EXPECT_EQ(digest_file(first_shard()).sha256, c.sha256);
}

TEST_P(SafetensorsWriter, holds_one_tensor_at_a_time) {
  int alive = 0;
  const auto watched = [&](const TensorSpec& spec) {
    EXPECT_EQ(alive, 0) << spec.name;
    ++alive;
    Tensor tensor = values_of(spec);
    std::byte* first = tensor.bytes();
    return Tensor(spec.dtype, spec.shape, {first, [tensor, &alive](std::byte*) { --alive; }});
  };
  write_safetensors_folder(scratch.folder(), c.specs, watched, c.shard_bytes);
  EXPECT_EQ(alive, 0);
}

TEST_P(SafetensorsWriter, leaves_an_existing_checkpoint_alone) {
  write_safetensors_folder(scratch.folder(), c.specs, values_of, c.shard_bytes);
  const std::string before = read_bytes(first_shard());
  EXPECT_THROW(write_safetensors_folder(scratch.folder(), c.specs, values_of, c.shard_bytes), Error);
  EXPECT_EQ(read_bytes(first_shard()), before);
}

TEST_P(SafetensorsWriter, a_failing_source_leaves_no_file) {
  const auto failing = [&](const TensorSpec& spec) -> Tensor {
    if (spec.name == c.specs.back().name) fail("no more");
    return values_of(spec);
  };
  EXPECT_EQ(error_of([&] { write_safetensors(scratch.path(kFile), c.specs, failing); }), "no more");
  EXPECT_TRUE(scratch.files().empty());
}

TEST_P(SafetensorsWriter, a_source_of_another_shape_is_refused) {
  const auto wrong = [&](const TensorSpec& spec) { return Tensor(spec.dtype, {1, 1, 1}); };
  EXPECT_NE(error_of([&] { write_safetensors(scratch.path(kFile), c.specs, wrong); }).find("is"),
            std::string::npos);
  EXPECT_TRUE(scratch.files().empty());
}

// A limit on file size makes write() fail half way, as a full disk does.
TEST_P(SafetensorsWriter, a_full_disk_leaves_no_file) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 600;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string error = error_of([&] { write_safetensors(scratch.path(kFile), c.specs, values_of); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(error.find("cannot write: " + std::string(std::strerror(EFBIG))), std::string::npos) << error;
  EXPECT_TRUE(scratch.files().empty());
}

TEST_P(SafetensorsWriter, a_doubled_name_is_refused) {
  std::vector<TensorSpec> specs = c.specs;
  specs.push_back(specs.front());
  EXPECT_NE(error_of([&] {
              write_safetensors(scratch.path(kFile), specs, values_of);
            }).find("two tensors are called"),
            std::string::npos);
  EXPECT_TRUE(scratch.files().empty());
}

const std::vector<TensorSpec> kMixed = {{"b.bias", {3}, DType::bf16},
                                        {"b.weight", {7, 33}, DType::bf16},
                                        {"a.weight", {5, 64}, DType::fp32},
                                        {"c.half", {9}, DType::fp16},
                                        {"d.double", {2, 2}, DType::fp64}};
const WriteCase kWrites[] = {
    {"one_shard", kMixed, 1 << 20, 1, "82edcc05a8b7f6b9120b3644bddfda7687db1e56194e58a377ceac0490c81b98"},
    {"two_shards", kMixed, 1700, 2, "46cf545410b504d3abdad561d5d43681830bc56583837b4c7a9f1c3a3615525f"},
    {"a_shard_each", kMixed, 1, 5, "25cf2833fabd82e38f9127bea714834b266df2a8037fd4d1e3043bfe686ceaca"},
};
INSTANTIATE_TEST_SUITE_P(host, SafetensorsWriter, testing::ValuesIn(kWrites),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- indices that lie ----

struct IndexCase {
  const char* name;
  std::function<void(nlohmann::json&)> change;  // of a good index
  const char* says;
};
void PrintTo(const IndexCase& c, std::ostream* out) { *out << c.name; }

struct SafetensorsIndexLies : testing::TestWithParam<IndexCase> {};

TEST_P(SafetensorsIndexLies, are_refused_with_their_reason) {
  const Scratch scratch;
  write_safetensors_folder(scratch.folder(), kMixed, values_of, 1700);
  nlohmann::json index = read_json(scratch.path(kIndexName));
  GetParam().change(index);
  write_bytes(scratch.path(kIndexName), index.dump());
  const std::string error = error_of([&] { SafetensorsFolder folder(scratch.folder()); });
  EXPECT_NE(error.find(GetParam().says), std::string::npos) << error;
}

const IndexCase kIndexLies[] = {
    {"no_weight_map", [](auto& index) { index.erase("weight_map"); }, "no weight_map"},
    {"no_total_size", [](auto& index) { index["metadata"].erase("total_size"); }, "no metadata.total_size"},
    {"total_size_a_text", [](auto& index) { index["metadata"]["total_size"] = "1"; },
     "no metadata.total_size"},
    {"not_an_object", [](auto& index) { index = nlohmann::json::array(); }, "no weight_map"},
    {"file_not_a_text", [](auto& index) { index["weight_map"]["b.bias"] = 1; }, "has no file name"},
    {"file_elsewhere", [](auto& index) { index["weight_map"]["b.bias"] = "../other.safetensors"; },
     "expected a file in this folder"},
    {"file_absolute", [](auto& index) { index["weight_map"]["b.bias"] = "/etc/passwd"; },
     "expected a file in this folder"},
    {"file_is_the_parent", [](auto& index) { index["weight_map"]["b.bias"] = ".."; },
     "expected a file in this folder"},
    {"file_missing", [](auto& index) { index["weight_map"]["b.bias"] = "lost.safetensors"; }, "cannot open"},
    {"file_not_safetensors", [](auto& index) { index["weight_map"]["b.bias"] = kIndexName; }, "header of"},
    {"wrong_shard",
     [](auto& index) { std::swap(index["weight_map"]["b.bias"], index["weight_map"]["d.double"]); },
     "where the index puts it"},
    {"tensor_nowhere", [](auto& index) { index["weight_map"]["ghost"] = index["weight_map"]["b.bias"]; },
     "'ghost' is not in"},
};
INSTANTIATE_TEST_SUITE_P(host, SafetensorsIndexLies, testing::ValuesIn(kIndexLies),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
