#include "model/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>
#define XXH_INLINE_ALL  // header only: nothing to link
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "model/error.h"

namespace h3 {
namespace {

std::string hex(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  return hex(canonical.digest);
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
  require(context_ && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
          "OpenSSL offers no SHA-256");
}

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "OpenSSL: SHA-256 failed");
}

std::string Sha256::hex() const {
  Sha256 end;
  unsigned char value[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_MD_CTX_copy_ex(end.context_.get(), context_.get()) == 1 &&
              EVP_DigestFinal_ex(end.context_.get(), value, &size) == 1,
          "OpenSSL: SHA-256 failed");
  return h3::hex({value, size});
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.update(bytes);
  return digest.hex();
}

std::string sha256_hex(std::string_view text) { return sha256_hex(std::as_bytes(std::span(text))); }

std::string xxh3_128_hex(std::span<const std::byte> bytes) {
  return hex(XXH3_128bits(bytes.data(), bytes.size()));
}

Xxh3::Xxh3()
    : state_(XXH3_createState(), [](void* state) { XXH3_freeState(static_cast<XXH3_state_t*>(state)); }) {
  require(state_ && XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_.get())) == XXH_OK,
          "xxHash: no state");
}

void Xxh3::update(std::span<const std::byte> bytes) {
  require(XXH3_128bits_update(static_cast<XXH3_state_t*>(state_.get()), bytes.data(), bytes.size()) == XXH_OK,
          "xxHash: XXH3-128 failed");
}

std::string Xxh3::hex() const {
  return h3::hex(XXH3_128bits_digest(static_cast<XXH3_state_t*>(state_.get())));
}

std::uint64_t xxh3_64(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

FileDigest digest_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(file >= 0, "{}: cannot open: {}", path, std::strerror(errno));
  const std::shared_ptr<void> closer(nullptr, [file](void*) { ::close(file); });
  std::vector<std::byte> buffer(std::size_t(1) << 20);
  Sha256 digest;
  FileDigest result;
  for (;;) {
    const ssize_t count = ::read(file, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    require(count >= 0, "{}: cannot read: {}", path, std::strerror(errno));
    if (count == 0) break;
    digest.update(std::span(buffer).first(std::size_t(count)));
    result.size += std::uint64_t(count);
  }
  result.sha256 = digest.hex();
  return result;
}

}  // namespace h3
