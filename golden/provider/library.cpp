#include "golden/provider/library.h"

#include <dlfcn.h>

#include "model/error.h"

namespace h3::golden::provider {

Library::Library(const char* file) : file_(file), handle_(dlopen(file, RTLD_NOW | RTLD_GLOBAL)) {
  if (handle_ == nullptr) missing_ = fmt::format("{} is missing: {}", file, dlerror());
}

void* Library::address_of(const char* name) const {
  if (handle_ == nullptr) fail("provider: {}", missing_);
  void* address = dlsym(handle_, name);
  require(address != nullptr, "provider: {} has no function {}", file_, name);
  return address;
}

std::string dotted_version(std::size_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace h3::golden::provider
