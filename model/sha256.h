// SHA-256 of bytes in memory: the identity of what is pinned (layouts, fixture datasets, checkpoints).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace h3 {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  template <class T>
  void update_values(std::span<const T> values) {
    update(std::as_bytes(values));
  }
  std::string hex();  // 64 lower-case digits; call once, after the last update

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::span<const std::byte> bytes);

}  // namespace h3
