#include "harness/report/this_process.h"

#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "kernels/numerics/chain.h"
#include "model/digest.h"
#include "model/error.h"

namespace h3 {
namespace {

using Json = nlohmann::ordered_json;

int note_library(dl_phdr_info* info, std::size_t, void* paths) {
  const std::filesystem::path path(info->dlpi_name);
  if (path.is_absolute()) (*static_cast<std::map<std::string, std::string>*>(paths))[path.filename()] = path;
  return 0;
}

Json text_or_null(const char* text) { return *text ? Json(text) : Json(); }

}  // namespace

Json build_facts() {
  return {{"type", H3_BUILD_TYPE},
          {"compiler", __VERSION__},
          {"cxx_flags", H3_CXX_FLAGS},
          {"cuda_compiler", text_or_null(H3_CUDA_COMPILER)},
          {"cuda_flags", text_or_null(H3_CUDA_FLAGS)},
          {"chain_isa", name_of(numerics::chosen_chain_isa())}};
}

Json set_variables() {
  Json found = Json::object();
  for (const char* name :
       {"H3_THREADS", "H3_FIXTURES", "H3_ROOT", "H3_ALLOW_SKIP", "H3_NCCL_LIBRARY", "CUDA_VISIBLE_DEVICES",
        "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUBLAS_WORKSPACE_CONFIG", "NVIDIA_TF32_OVERRIDE",
        "NCCL_NVLS_ENABLE", "NCCL_ALGO", "NCCL_PROTO", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
        "OPENBLAS_CORETYPE", "LD_PRELOAD", "LD_LIBRARY_PATH"})
    if (const char* value = std::getenv(name)) found[name] = value;
  return found;
}

Json loaded_libraries() {
  std::map<std::string, std::string> paths;
  ::dl_iterate_phdr(note_library, &paths);
  Json libraries = Json::array();
  for (const auto& [name, path] : paths) {
    Json sha256;
    try {
      sha256 = digest_file(path).sha256;
    } catch (const Error&) {
      // deleted since, or not ours to read
    }
    libraries.push_back({{"name", name}, {"sha256", sha256}});
  }
  return libraries;
}

const std::map<std::string, std::string>& source_trees() {
  static const std::map<std::string, std::string> trees = {
#include "source_trees.inc"
  };
  return trees;
}

std::string executable_sha256() { return digest_file("/proc/self/exe").sha256; }

}  // namespace h3
