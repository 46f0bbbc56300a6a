// The trees that a run is tied to, as git itself names them.
#include "model/git_tree.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "conformance/errors.h"
#include "conformance/scratch.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;

// What git (2.39) says about each folder: `git add -A && git write-tree`.
struct TreeRow {
  const char* name;
  void (*fill)(const Scratch& folder);
  const char* id;
};
void PrintTo(const TreeRow& row, std::ostream* out) { *out << row.name; }

class GitTree : public testing::TestWithParam<TreeRow> {};

TEST_P(GitTree, is_the_one_that_git_names) {
  const Scratch folder;
  GetParam().fill(folder);
  EXPECT_EQ(git_tree_id(folder.folder()), GetParam().id);
}

void one_file(const Scratch& folder) { write_file(folder.path("a.cpp"), "int a;\n"); }

// "a.cpp" comes before the folder "a" (sorted as "a/"), which comes before "a0".
void files_and_folders(const Scratch& folder) {
  one_file(folder);
  fs::create_directories(folder.path("a/deep"));
  write_file(folder.path("a/deep/b.h"), "");
  write_file(folder.path("a0"), "0\n");
}

const TreeRow kTrees[] = {
    {"nothing", [](const Scratch&) {}, "4b825dc642cb6eb9a060e54bf8d69288fbee4904"},
    {"one_file", one_file, "87162c7fde937c8408cd968986fdffaf858fbcef"},
    {"files_and_folders", files_and_folders, "121bb661f7f224db2a0631e689d8162c3b4a352c"},
    {"executable_and_link",
     [](const Scratch& folder) {
       one_file(folder);
       fs::permissions(folder.path("a.cpp"), fs::perms::owner_exec, fs::perm_options::add);
       fs::create_symlink("a.cpp", folder.path("link"));
     },
     "4770aa1a94f2ba891d8b61de2ca9bf2c5091cca1"},
    {"ignored_files_and_empty_folders",
     [](const Scratch& folder) {
       files_and_folders(folder);
       write_file(folder.path("a/half.tmp"), "x");
       fs::create_directories(folder.path("__pycache__"));
       write_file(folder.path("__pycache__/x.pyc"), "x");
       fs::create_directories(folder.path("empty"));
     },
     "121bb661f7f224db2a0631e689d8162c3b4a352c"},
};
INSTANTIATE_TEST_SUITE_P(generation, GitTree, testing::ValuesIn(kTrees),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
