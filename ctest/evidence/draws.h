// Digests that a gate recorded, derived again: without a GPU the CPU twin gives the bytes that a Hopper GPU
// computed. Which ones is drawn from a seed after the folder was sealed, so that whoever made it could not
// know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ctest/verdict.h"

namespace h3::gate {

// A node of block 0 whose bytes a case of gate block0 or block0_cuda recorded: its properties are layout,
// node and xxh3_128.
struct RecordedDigest {
  std::string case_name, layout, node, xxh3_128;
};

// Whether the verdict's gate is one that records digests of block 0.
bool records_digests(const Verdict& verdict);

// "" when the case recorded no such property.
std::string property(const CaseVerdict& one, const std::string& key);

// Those of one layout, a node once per case that ran.
std::vector<RecordedDigest> recorded_digests(const Verdict& verdict, const std::string& layout);

// `count` of them, or all when there are not so many; the same seed draws the same.
std::vector<RecordedDigest> draw(std::vector<RecordedDigest> recorded, std::size_t count, std::uint64_t seed);

}  // namespace h3::gate
