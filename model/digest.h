// Digests of bytes. SHA-256 names what has to stay the same for years (pinned files, weights, evidence);
// XXH3-128 is the quick one for comparing tensors within a run. Both are lower-case hexadecimal, most
// significant byte first, as sha256sum and xxhsum print them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's

namespace h3 {

std::string sha256_hex(std::span<const std::byte> bytes);
std::string sha256_hex(std::string_view text);
std::string xxh3_128_hex(std::span<const std::byte> bytes);
std::uint64_t xxh3_64(std::span<const std::byte> bytes);

// SHA-256 of bytes that arrive in pieces.
class Sha256 {
 public:
  Sha256();
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  std::string hex() const;  // of everything so far; more may follow

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

// XXH3-128 of bytes that arrive in pieces.
class Xxh3 {
 public:
  Xxh3();
  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // of everything so far; more may follow

 private:
  std::shared_ptr<void> state_;
};

struct FileDigest {
  std::string sha256;
  std::uint64_t size = 0;  // bytes
};
FileDigest digest_file(const std::string& path);  // streamed; fails when the file cannot be read

}  // namespace h3
