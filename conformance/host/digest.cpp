// The digests against the published test vectors, whole and in pieces.
#include "model/digest.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "model/error.h"

namespace h3 {
namespace {

struct DigestCase {
  const char* name;
  std::string text;
  const char* sha256;
  const char* xxh3_128;
};
void PrintTo(const DigestCase& c, std::ostream* out) { *out << c.name; }

struct Digest : testing::TestWithParam<DigestCase> {};

TEST_P(Digest, matches_published_vectors) {
  const DigestCase& c = GetParam();
  EXPECT_EQ(sha256_hex(c.text), c.sha256);
  EXPECT_EQ(xxh3_128_hex(std::as_bytes(std::span(c.text))), c.xxh3_128);
}

TEST_P(Digest, pieces_give_the_digest_of_the_whole) {
  const std::string_view text = GetParam().text;
  for (const std::size_t piece : {1u, 63u, 64u, 65u, 4096u}) {
    Sha256 digest;
    for (std::size_t at = 0; at < text.size(); at += piece) digest.update(text.substr(at, piece));
    EXPECT_EQ(digest.hex(), GetParam().sha256) << "pieces of " << piece;
  }
}

TEST_P(Digest, can_be_read_while_it_grows) {
  Sha256 digest;
  EXPECT_EQ(digest.hex(), sha256_hex(std::string_view()));
  digest.update(GetParam().text);
  EXPECT_EQ(digest.hex(), GetParam().sha256);
  EXPECT_EQ(digest.hex(), GetParam().sha256);
  digest.update("more");
  EXPECT_EQ(digest.hex(), sha256_hex(GetParam().text + "more"));
}

TEST_P(Digest, a_file_has_the_digest_of_its_bytes) {
  const std::string path = testing::TempDir() + "h3_digest_" + GetParam().name;
  std::ofstream(path, std::ios::binary) << GetParam().text;
  const FileDigest digest = digest_file(path);
  std::remove(path.c_str());
  EXPECT_EQ(digest.sha256, GetParam().sha256);
  EXPECT_EQ(digest.size, GetParam().text.size());
  EXPECT_THROW(digest_file(path), Error);
}

const DigestCase kVectors[] = {
    {"empty", "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
     "99aa06d3014798d86001c324468d497f"},
    {"abc", "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
     "06b05ab6733a618578af5f94892f3950"},
    {"million_a", std::string(1'000'000, 'a'),
     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", "a545df8e384a9579b1fd6fae5285c4eb"},
};
INSTANTIATE_TEST_SUITE_P(host, Digest, testing::ValuesIn(kVectors),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace h3
