// The HDF5 files of the suite: what was written is what is read, bit for bit; damage is an error, never a
// value.
#include "fixtures/hdf5.h"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "conformance/errors.h"
#include "harness/compare/first_difference.h"

namespace h3 {
namespace {

std::string scratch(const std::string& name) {
  return testing::TempDir() + "h3_hdf5_" + std::to_string(::getpid()) + "_" + name + ".h5";
}

std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// Every bit pattern that converters like to repair: NaN payloads, infinities, subnormals, both zeros.
Tensor awkward(DType dtype, const Shape& shape) {
  Tensor tensor(dtype, shape);
  std::uint64_t state = 42;
  for (std::size_t i = 0; i < tensor.size_bytes(); ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    tensor.bytes()[i] = std::byte(i % 7 == 0 ? 0xff : i % 5 == 0 ? 0x00 : state >> 56);
  }
  return tensor;
}

void write_sample(const std::string& path) {
  Hdf5Writer file(path);
  file.attribute("/", "provider", "sample 1.0");
  file.write("rows/weights", awkward(DType::bf16, {37, 129}));
  file.write("rows/positions", awkward(DType::fp64, {100, 3}));
  file.write_vector("rows/tags", std::vector<std::int8_t>{0, 1, 2, -1});
  file.attribute("rows/weights", "seed", std::int64_t(7));
  file.attribute("rows/weights", "shift", 12.0);
  file.close();
}

// ---- round trips
// -----------------------------------------------------------------------------------------------

struct TensorCase {
  const char* name;
  DType dtype;
  Shape shape;
};
void PrintTo(const TensorCase& c, std::ostream* out) {
  *out << c.name << ' ' << name_of(c.dtype) << ' ' << to_string(c.shape);
}
std::string case_name(const testing::TestParamInfo<TensorCase>& info) { return info.param.name; }

struct Hdf5Tensor : testing::TestWithParam<TensorCase> {};

TEST_P(Hdf5Tensor, round_trip_is_bitwise) {
  const auto& row = GetParam();
  const std::string path = scratch(row.name);
  const Tensor tensor = awkward(row.dtype, row.shape);
  {
    Hdf5Writer file(path);
    file.write("a/b/tensor", tensor);
    file.close();
  }
  const Hdf5Reader file(path);
  EXPECT_TRUE(identical(file.read("a/b/tensor"), tensor));
  EXPECT_TRUE(identical(file.read("a/b/tensor", row.dtype, row.shape), tensor));
  std::filesystem::remove(path);
}

TEST_P(Hdf5Tensor, row_reads_equal_the_whole) {
  const auto& row = GetParam();
  const std::string path = scratch(row.name);
  const Tensor tensor = awkward(row.dtype, row.shape);
  {
    Hdf5Writer file(path);
    file.write("tensor", tensor);
    file.close();
  }
  const Hdf5Reader file(path);
  if (tensor.elements() == 0 || row.shape.empty()) {
    EXPECT_TRUE(fails_naming([&] { file.read_rows("tensor", 0, 1); }, {path, "tensor"}));
  } else {
    const std::int64_t extent = row.shape[0], middle = extent / 2;
    EXPECT_TRUE(identical(file.read_rows("tensor", middle, extent - middle),
                          tensor.row_range(middle, extent - middle)));
    EXPECT_TRUE(identical(file.read_rows("tensor", extent, 0), tensor.row_range(extent, 0)));
    EXPECT_TRUE(
        fails_naming([&] { file.read_rows("tensor", middle, extent + 1); }, {path, "tensor", "rows"}));
    EXPECT_TRUE(fails_naming([&] { file.read_rows("tensor", -1, 1); }, {path, "tensor", "rows"}));
  }
  std::filesystem::remove(path);
}

const TensorCase kTensorCases[] = {{"bf16", DType::bf16, {5, 3, 17}},
                                   {"fp16", DType::fp16, {64}},
                                   {"fp32", DType::fp32, {3, 257}},
                                   {"fp64", DType::fp64, {264, 3}},
                                   {"i64", DType::i64, {1}},
                                   {"scalar", DType::fp32, {}},
                                   {"no_rows", DType::fp32, {0, 5}},
                                   {"many_chunks", DType::fp32, {301, 1003}},
                                   {"one_wide_row", DType::bf16, {1, 300001}}};
INSTANTIATE_TEST_SUITE_P(host, Hdf5Tensor, testing::ValuesIn(kTensorCases), case_name);

// ---- simple claims
// ---------------------------------------------------------------------------------------------

struct FileCase {
  const char* name;
  void (*check)(const std::string& path);
};
void PrintTo(const FileCase& c, std::ostream* out) { *out << c.name; }

void vectors_keep_their_words(const std::string& path) {
  const std::vector<std::int8_t> i8{-128, 0, 127};
  const std::vector<std::uint64_t> u64{0, ~std::uint64_t(0), 1u << 31};
  const std::vector<float> f32{-0.0f, 0.1f};
  {
    Hdf5Writer file(path);
    file.write_vector("i8", i8);
    file.write_vector("deep/u64", u64);
    file.write_vector("f32", std::span<const float>(f32), {2, 1});
    file.close();
  }
  const Hdf5Reader file(path);
  EXPECT_EQ(file.read_vector<std::int8_t>("i8"), i8);
  EXPECT_EQ(file.read_vector<std::uint64_t>("deep/u64"), u64);
  EXPECT_TRUE(std::signbit(file.read_vector<float>("f32")[0]));
  EXPECT_EQ(file.shape("f32"), (Shape{2, 1}));
}

void objects_can_be_listed(const std::string& path) {
  write_sample(path);
  const Hdf5Reader file(path);
  EXPECT_EQ(file.list(), std::vector<std::string>{"rows"});
  EXPECT_EQ(file.list("/rows"), (std::vector<std::string>{"positions", "tags", "weights"}));
  EXPECT_EQ(file.datasets(), (std::vector<std::string>{"/rows/positions", "/rows/tags", "/rows/weights"}));
  EXPECT_TRUE(file.contains("rows/tags"));
  EXPECT_FALSE(file.contains("rows/tag"));
  EXPECT_FALSE(file.contains("no/such/path"));
}

void attributes_keep_their_type(const std::string& path) {
  write_sample(path);
  const Hdf5Reader file(path);
  EXPECT_EQ(file.string_attribute("/", "provider"), "sample 1.0");
  EXPECT_EQ(file.int_attribute("rows/weights", "seed"), 7);
  EXPECT_EQ(file.ints_attribute("rows/weights", "seed"), std::vector<std::int64_t>{7});
  EXPECT_EQ(file.double_attribute("rows/weights", "shift"), 12.0);
  EXPECT_EQ(file.string_attribute("rows/weights", "logical_dtype"), "bf16");
  EXPECT_TRUE(
      fails_naming([&] { file.int_attribute("/", "provider"); }, {path, "provider", "string", "an integer"}));
  EXPECT_TRUE(fails_naming([&] { file.string_attribute("rows/weights", "seed"); }, {path, "seed", "i64"}));
  EXPECT_TRUE(
      fails_naming([&] { file.double_attribute("rows/weights", "none"); }, {path, "rows/weights", "none"}));
  EXPECT_TRUE(fails_naming([&] { file.double_attribute("rows/none", "seed"); }, {path, "rows/none"}));
}

void same_content_gives_same_bytes(const std::string& path) {
  write_sample(path);
  const std::string first = file_bytes(path);
  ::sleep(1);  // a time stamp would have moved on
  write_sample(path);
  EXPECT_EQ(first, file_bytes(path));
}

void unfinished_files_leave_nothing(const std::string& path) {
  {
    Hdf5Writer file(path);
    file.write_vector("x", std::vector<float>{1});
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

void a_failed_rewrite_keeps_the_old_file(const std::string& path) {
  write_sample(path);
  const std::string before = file_bytes(path);
  {
    Hdf5Writer file(path);
    file.write_vector("x", std::vector<float>{1});
    EXPECT_TRUE(fails_naming([&] { file.write_vector("x", std::vector<float>{2}); }, {path, "x"}));
  }
  EXPECT_EQ(before, file_bytes(path));
}

void truncation_is_always_an_error(const std::string& path) {
  write_sample(path);
  const std::string whole = file_bytes(path);
  for (std::size_t size = 0; size < whole.size(); size += size < 600 ? 1 : 37) {
    write_bytes(path, whole.substr(0, size));
    EXPECT_TRUE(fails_naming([&] { Hdf5Reader file(path); }, {path, "not a complete HDF5 file"}))
        << size << " bytes";
  }
}

// One flipped byte anywhere may go unnoticed only if it changes nothing that is read.
void a_flipped_byte_is_never_a_value(const std::string& path) {
  write_sample(path);
  const std::string whole = file_bytes(path);
  int noticed = 0;
  for (std::size_t offset = 0; offset < whole.size(); offset += 13) {
    std::string damaged = whole;
    damaged[offset] = char(damaged[offset] ^ 0x10);
    write_bytes(path, damaged);
    Tensor weights, positions;
    std::vector<std::int8_t> tags;
    const auto message = error_of([&] {
      const Hdf5Reader file(path);
      weights = file.read("rows/weights", DType::bf16, {37, 129});
      positions = file.read("rows/positions", DType::fp64, {100, 3});
      tags = file.read_vector<std::int8_t>("rows/tags");
    });
    if (!message.empty()) {
      ++noticed;
      EXPECT_NE(message.find(path), std::string::npos) << message;
      continue;
    }
    EXPECT_TRUE(identical(weights, awkward(DType::bf16, {37, 129}))) << "offset " << offset;
    EXPECT_TRUE(identical(positions, awkward(DType::fp64, {100, 3}))) << "offset " << offset;
    EXPECT_EQ(tags, (std::vector<std::int8_t>{0, 1, 2, -1})) << "offset " << offset;
  }
  EXPECT_GT(noticed, 100);  // most of the file is data, and damage in it has to be seen
}

// What other writers leave: a hash of other data, no hash, no checksum, a variable-length string.
void foreign_files_are_not_trusted(const std::string& path) {
  write_sample(path);
  {
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t tags = H5Dopen2(file, "rows/tags", H5P_DEFAULT), scalar = H5Screate(H5S_SCALAR);
    const hid_t digits = H5Tcopy(H5T_C_S1);
    H5Tset_size(digits, 64);
    const std::string stale_hash(64, '0');
    EXPECT_GE(H5Adelete(tags, "sha256"), 0);
    const hid_t stale = H5Acreate2(tags, "sha256", digits, scalar, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Awrite(stale, digits, stale_hash.data()), 0);
    H5Aclose(stale);
    H5Tclose(digits);
    H5Dclose(tags);

    const hsize_t extent = 2;
    const float values[] = {1, 2};
    const hid_t space = H5Screate_simple(1, &extent, nullptr);
    const hid_t bare = H5Dcreate2(file, "bare", H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    EXPECT_GE(H5Dwrite(bare, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    const hid_t note = H5Acreate2(bare, "note", text, scalar, H5P_DEFAULT, H5P_DEFAULT);
    const char* words = "from elsewhere";
    EXPECT_GE(H5Awrite(note, text, &words), 0);
    H5Aclose(note);
    H5Tclose(text);
    H5Dclose(bare);
    H5Sclose(space);
    H5Sclose(scalar);
    H5Fclose(file);
  }
  const Hdf5Reader file(path);
  EXPECT_TRUE(fails_naming([&] { file.read_vector<std::int8_t>("rows/tags"); },
                           {path, "rows/tags", "sha256", "expected 000"}));
  EXPECT_TRUE(fails_naming([&] { file.read("bare"); }, {path, "bare has no attribute sha256"}));
  EXPECT_TRUE(fails_naming([&] { file.read_rows("bare", 0, 1); }, {path, "bare", "Fletcher-32"}));
  EXPECT_EQ(file.string_attribute("bare", "note"), "from elsewhere");
}

void wrong_types_are_named(const std::string& path) {
  {
    Hdf5Writer file(path);
    file.write("bf16", awkward(DType::bf16, {4}));
    file.write_vector("untagged", std::vector<std::uint16_t>{1, 2});
    file.write_vector("foreign", std::vector<std::uint16_t>{1, 2});
    file.attribute("foreign", "logical_dtype", "fp8");
    file.write_vector("mislabelled", std::vector<float>{1, 2});
    file.attribute("mislabelled", "logical_dtype", "bf16");
    file.write_vector("bytes", std::vector<std::int8_t>{1});
    file.close();
  }
  const Hdf5Reader file(path);
  EXPECT_TRUE(fails_naming([&] { file.read("untagged"); }, {path, "untagged", "u16", "logical_dtype"}));
  EXPECT_TRUE(fails_naming([&] { file.read("foreign"); }, {path, "foreign", "fp8"}));
  EXPECT_TRUE(fails_naming([&] { file.read("mislabelled"); }, {path, "mislabelled", "bf16", "f32"}));
  EXPECT_TRUE(fails_naming([&] { file.read("bytes"); }, {path, "bytes", "i8"}));
  EXPECT_TRUE(fails_naming([&] { file.read("bf16", DType::fp16, {4}); }, {path, "bf16", "expected fp16"}));
  EXPECT_TRUE(fails_naming(
      [&] {
        file.read("bf16", DType::bf16, {2, 2});
      },
      {path, "shape 4", "expected 2x2"}));
  EXPECT_TRUE(fails_naming([&] { file.read_vector<float>("bf16"); }, {path, "bf16", "u16", "expected f32"}));
  EXPECT_TRUE(fails_naming([&] { file.read_vector<std::uint8_t>("bytes"); }, {path, "i8", "expected u8"}));
  EXPECT_TRUE(fails_naming([&] { file.read("absent"); }, {path, "no dataset absent"}));
  EXPECT_TRUE(fails_naming([&] { file.list("absent"); }, {path, "no group absent"}));
  EXPECT_TRUE(fails_naming([&] { file.list("bytes"); }, {path, "bytes is not a group"}));
}

void missing_files_are_named(const std::string& path) {
  EXPECT_TRUE(fails_naming([&] { Hdf5Reader file(path); }, {path, "No such file"}));
  EXPECT_TRUE(fails_naming([&] { Hdf5Writer file("/no_such_folder/x.h5"); }, {"/no_such_folder/x.h5"}));
}

struct Hdf5File : testing::TestWithParam<FileCase> {};

TEST_P(Hdf5File, keeps_its_promise) {
  const std::string path = scratch(GetParam().name);
  GetParam().check(path);
  std::filesystem::remove(path);
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

#define CASE(name) \
  { #name, name }
const FileCase kFileCases[] = {
    CASE(vectors_keep_their_words),       CASE(objects_can_be_listed),
    CASE(attributes_keep_their_type),     CASE(same_content_gives_same_bytes),
    CASE(unfinished_files_leave_nothing), CASE(a_failed_rewrite_keeps_the_old_file),
    CASE(truncation_is_always_an_error),  CASE(a_flipped_byte_is_never_a_value),
    CASE(foreign_files_are_not_trusted),  CASE(wrong_types_are_named),
    CASE(missing_files_are_named)};
INSTANTIATE_TEST_SUITE_P(host, Hdf5File, testing::ValuesIn(kFileCases),
                         [](const auto& info) { return std::string(info.param.name); });
#undef CASE

}  // namespace
}  // namespace h3
