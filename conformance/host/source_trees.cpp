// The sources that this build says it was made of, which every generation is tied to.
#include <gtest/gtest.h>

#include "fixtures/path.h"
#include "harness/report/this_process.h"
#include "model/git_tree.h"

namespace h3 {
namespace {

class SourceTrees : public testing::TestWithParam<const char*> {};

// What the build wrote down is what lies there now, or the cases ran against another build.
TEST_P(SourceTrees, are_those_of_the_sources) {
  EXPECT_EQ(source_trees().at(GetParam()), git_tree_id((data_root() / GetParam()).string()));
}

INSTANTIATE_TEST_SUITE_P(host, SourceTrees, testing::Values("model", "kernels", "harness"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
