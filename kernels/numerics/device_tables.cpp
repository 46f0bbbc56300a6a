#include "kernels/numerics/device_tables.h"

#include <limits>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "fixtures/hdf5.h"
#include "fixtures/path.h"
#include "model/digest.h"
#include "model/error.h"

namespace h3::numerics {
template <class Step, class Word>
std::vector<Word> captured_table(const std::string& path, const std::string& name, std::size_t entries) {
  const Hdf5Reader file(path);
  const std::vector<Step> steps = file.read_vector<Step>(name);
  require(steps.size() + 1 == entries, "{}: {} holds {} entries, expected {}", path, name, steps.size() + 1,
          entries);
  std::vector<Word> bits(entries);
  bits[0] = Word(file.int_attribute(name, "first_bits"));
  for (std::size_t i = 1; i < entries; ++i) bits[i] = bits[i - 1] + Word(std::int64_t(steps[i - 1]));
  const std::string expected = file.string_attribute(name, "table_sha256");
  const std::string measured = sha256_hex(std::as_bytes(std::span(bits)));
  require(measured == expected, "{}: {} decodes to sha256 {}, expected {}", path, name, measured, expected);
  return bits;
}

template std::vector<std::uint32_t> captured_table<std::int8_t, std::uint32_t>(const std::string&,
                                                                               const std::string&,
                                                                               std::size_t);
template std::vector<std::uint64_t> captured_table<std::int16_t, std::uint64_t>(const std::string&,
                                                                                const std::string&,
                                                                                std::size_t);

namespace {

constexpr const char* kFile = "device_functions.h5";

std::mutex one_file_at_a_time;  // HDF5 is not thread safe

template <class Step, class Word>
std::vector<Word> table(const std::string& name, std::size_t entries) {
  const std::lock_guard lock(one_file_at_a_time);
  return captured_table<Step, Word>(fixture_path(kFile).string(), name, entries);
}

template <class Base>
std::vector<std::int8_t> residual(const std::string& name, std::size_t entries, Base base) {
  const auto bits = table<std::int8_t, std::uint32_t>(name, entries);
  std::vector<std::int8_t> distance(entries);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::int32_t ulps = std::int32_t(bits[i] - base(std::uint32_t(i)));
    require(
        ulps >= std::numeric_limits<std::int8_t>::min() && ulps <= std::numeric_limits<std::int8_t>::max(),
        "{}: {} entry {} is {} units from the function it should be", kFile, name, i, ulps);
    distance[i] = std::int8_t(ulps);
  }
  return distance;
}

}  // namespace

const std::int8_t* ex2_residual() {
  static const auto table = residual("ex2", std::size_t(1) << 23, ex2_base);
  return table.data();
}

const std::int8_t* rcp_residual() {
  static const auto table = residual("rcp", std::size_t(1) << 23, rcp_base);
  return table.data();
}

const std::int8_t* rsqrt_residual() {
  static const auto table = residual("rsqrt", std::size_t(1) << 24, rsqrt_base);
  return table.data();
}

const std::uint64_t* lg2_table() {
  static const auto words = table<std::int16_t, std::uint64_t>("lg2", std::size_t(1) << 23);
  return words.data();
}

}  // namespace h3::numerics
