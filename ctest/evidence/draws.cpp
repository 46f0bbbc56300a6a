#include "ctest/evidence/draws.h"

#include <algorithm>

#include "model/digest.h"
#include "model/error.h"

namespace h3::gate {

bool records_digests(const Verdict& verdict) {
  return verdict.gate == "block0" || verdict.gate == "block0_cuda";
}

std::string property(const CaseVerdict& one, const std::string& key) {
  const auto found = std::ranges::find(one.properties, key, &std::pair<std::string, std::string>::first);
  return found == one.properties.end() ? "" : found->second;
}

std::vector<RecordedDigest> recorded_digests(const Verdict& verdict, const std::string& layout) {
  std::vector<RecordedDigest> recorded;
  if (!records_digests(verdict)) return recorded;
  for (const auto& one : verdict.cases) {
    const std::string node = property(one, "node"), digest = property(one, "xxh3_128");
    if (property(one, "layout") == layout && !node.empty() && !digest.empty())
      recorded.push_back({one.name, layout, node, digest});
  }
  return recorded;
}

std::vector<RecordedDigest> draw(std::vector<RecordedDigest> recorded, std::size_t count,
                                 std::uint64_t seed) {
  const auto rank = [&](const RecordedDigest& one) {
    return sha256_hex(fmt::format("{} {}", seed, one.case_name));
  };
  std::ranges::sort(recorded, {}, rank);
  if (recorded.size() > count) recorded.resize(count);
  return recorded;
}

}  // namespace h3::gate
