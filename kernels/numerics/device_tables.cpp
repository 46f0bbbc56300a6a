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
std::vector<std::uint32_t> captured_table(const std::string& path, const std::string& name,
                                          std::size_t entries) {
  const Hdf5Reader file(path);
  const std::vector<std::int8_t> steps = file.read_vector<std::int8_t>(name);
  require(steps.size() + 1 == entries, "{}: {} holds {} entries, expected {}", path, name, steps.size() + 1,
          entries);
  std::vector<std::uint32_t> bits(entries);
  bits[0] = std::uint32_t(file.int_attribute(name, "first_bits"));
  for (std::size_t i = 1; i < entries; ++i) bits[i] = bits[i - 1] + std::uint32_t(std::int32_t(steps[i - 1]));
  const std::string expected = file.string_attribute(name, "table_sha256");
  const std::string measured = sha256_hex(std::as_bytes(std::span(bits)));
  require(measured == expected, "{}: {} decodes to sha256 {}, expected {}", path, name, measured, expected);
  return bits;
}

namespace {

constexpr const char* kFile = "device_functions.h5";

template <class Base>
std::vector<std::int8_t> residual(const std::string& name, std::size_t entries, Base base) {
  static std::mutex one_file_at_a_time;  // HDF5 is not thread safe
  const std::lock_guard lock(one_file_at_a_time);
  const std::vector<std::uint32_t> bits = captured_table(fixture_path(kFile).string(), name, entries);
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

}  // namespace h3::numerics
