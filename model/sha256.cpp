#include "model/sha256.h"

#include <openssl/evp.h>

#include "model/error.h"

namespace h3 {

struct Sha256::Context {
  EVP_MD_CTX* state = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(state); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(context_->state && EVP_DigestInit_ex(context_->state, EVP_sha256(), nullptr) == 1,
          "sha256: OpenSSL offers no SHA-256");
}

Sha256::~Sha256() = default;

void Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_->state, bytes.data(), bytes.size()) == 1, "sha256: update failed");
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  require(EVP_DigestFinal_ex(context_->state, digest, &size) == 1, "sha256: digest read twice");
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

}  // namespace h3
