// A shared library opened when the provider runs, not when the suite is linked: which cuBLAS or cuDNN answers
// is the user's choice (LD_LIBRARY_PATH), and a machine without it still builds and lists everything.
#pragma once

#include <string>

namespace h3::golden::provider {

class Library {
 public:
  explicit Library(const char* file);                      // opened once, never closed
  const std::string& missing() const { return missing_; }  // empty, or one line

  // Error, one line, when the library or the symbol is not there.
  template <class Function>
  Function* symbol(const char* name) const {
    return reinterpret_cast<Function*>(address_of(name));
  }

 private:
  void* address_of(const char* name) const;
  const char* file_;
  void* handle_;
  std::string missing_;
};

// 130100 -> "13.1.0": how cuBLAS counts.
std::string dotted_version(std::size_t version);

}  // namespace h3::golden::provider
