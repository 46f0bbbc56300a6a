// Who owns what among the ranks of a parallel run, as data: rows, heads, channels, and with every row what
// describes it. The ranks' declarations are checked before anything runs; what is not owned as one rank's
// order asks for is no slower or other way to the same bytes, it is not comparable.
//
// The split of n items among r ranks: rank i owns [floor(i n / r), floor((i + 1) n / r)), none of them empty.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "model/config.h"

namespace h3 {

struct Run {
  std::int64_t first, count;
  bool operator==(const Run&) const = default;
};
Run share(std::int64_t items, int ranks, int rank);

// What is dealt out. Channels go in groups: of 8, as the tensor core takes them; of 72 in the modulation
// table, where a group is a piece of every tag and part.
enum class Kind { rows, heads, hidden_channels, ffn_channels, time_channels, table_channels };
const char* name_of(Kind kind);  // "rows", "heads", ...

// What travels with a row.
inline constexpr const char* kRowMetadata[] = {
    "token_tags", "positions", "timestep_indices", "adaln_indices", "rotary_cos", "rotary_sin", "row_ids"};

// What one rank says it holds: items by kind, of metadata the rows they belong to.
struct Holding {
  std::map<std::string, std::vector<std::int64_t>> items;
  std::string to_text() const;  // one line of JSON
};
Holding holding_of_text(const std::string& text, int rank);  // Error naming the rank whose text is broken

class Ownership {
 public:
  // Error when a rank would own nothing of a kind.
  Ownership(const Config& config, std::int64_t rows, int ranks);

  int ranks() const { return ranks_; }
  std::int64_t items(Kind kind) const { return items_[std::size_t(kind)]; }
  std::int64_t unit(Kind kind) const;  // rows or columns of a matrix that one item is
  Run of(Kind kind, int rank) const { return share(items(kind), ranks_, rank); }
  Holding holding(int rank) const;

  // Errors, one line each, the first that is found: an item without owner, with two, with another than this
  // split gives it, or outside; metadata that does not lie where its row lies.
  void require_comparable(std::span<const Holding> declared) const;

 private:
  void require_owners(const std::string& kind, std::int64_t items, bool metadata,
                      std::span<const Holding> declared) const;

  int ranks_;
  std::vector<std::int64_t> items_;  // by kind
};

}  // namespace h3
