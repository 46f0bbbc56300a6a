// Writes the header that says from which sources this build was made: a build step, run every time, that
// touches the header only when a folder has changed.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>

#include "model/atomic_file.h"
#include "model/git_tree.h"

int main(int argc, char** argv) try {
  const std::string source = argc > 2 ? argv[1] : ".", header = argc > 2 ? argv[2] : "";
  std::string text = "// Written by the build.\n";
  for (int i = 3; i < argc; ++i)
    text += std::string("{\"") + argv[i] + "\", \"" + h3::git_tree_id(source + "/" + argv[i]) + "\"},\n";
  std::ifstream old(header, std::ios::binary);
  if (std::string(std::istreambuf_iterator<char>(old), {}) != text) h3::write_file(header, text);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "source_trees: %s\n", error.what());
  return 2;
}
