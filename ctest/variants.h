// Programs that each differ from a built one in one source file, made from a finished Ninja build of it: only
// the objects that read this file are compiled again, with their own commands, and linked in front of the
// archives that hold the unchanged ones. The source tree and the build folder are only read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace h3::gate {

struct Variant {
  std::string name;  // also of its folder
  std::string file;  // of the source tree, relative to it
  std::string text;  // what the file holds instead
};

// What a build folder was configured for, and with. Errors: no build folder.
std::filesystem::path source_of_build(const std::filesystem::path& build);
std::string ninja_of_build(const std::filesystem::path& build);

// Writes the changed files and a build.ninja into `folder`; `ninja -C folder` then builds all variants of
// `target`, in this order as far as it can choose. Errors: `target` is not built; nothing in it reads the
// changed file.
void write_variants(const std::filesystem::path& build, const std::string& target,
                    const std::vector<Variant>& variants, const std::filesystem::path& folder);

// Appears when it is complete.
std::filesystem::path variant_program(const std::filesystem::path& folder, const std::string& name);

}  // namespace h3::gate
