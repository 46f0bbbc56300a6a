// HDF5 files that nobody has written by accident: each is small, and would make a reader follow, recurse,
// allocate or leak without end. They lie among the seeds of conformance/fuzz.
#include <gtest/gtest.h>

#include <ostream>

#include "conformance/errors.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"

namespace h3 {
namespace {

struct ForeignRow {
  const char* name;
  const char* says;
};
void PrintTo(const ForeignRow& row, std::ostream* out) { *out << row.name; }

struct ForeignHdf5 : testing::TestWithParam<ForeignRow> {};

TEST_P(ForeignHdf5, is_refused_in_one_line) {
  const std::string name = std::string(GetParam().name) + ".h5";
  const auto read_all = [&] {
    const Hdf5Reader file((data_root() / "conformance/fuzz/corpus/hdf5" / name).string());
    for (const auto& dataset : file.datasets()) file.verify(dataset);
  };
  EXPECT_TRUE(fails_naming(read_all, {name, GetParam().says}));
}

const ForeignRow kForeign[] = {
    {"external_link", "x in group / is a link"},
    {"group_in_itself", "has a second name"},
    {"groups_that_multiply", "has a second name"},
    {"deep_groups", "nested deeper than 32 levels"},
    {"crash_of_the_library", "superblock 0, a format without checksums"},
    {"unstored", "dataset /x: shape 1099511627776 in 0 stored bytes"},
    {"overflow", "dataset /x: shape 8589934592x8589934592 in 0 stored bytes"},
    {"variable_length", "expected words of a fixed size"},
};
INSTANTIATE_TEST_SUITE_P(host, ForeignHdf5, testing::ValuesIn(kForeign),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
