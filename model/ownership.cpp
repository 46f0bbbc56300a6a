#include "model/ownership.h"

#include <algorithm>

#include "model/error.h"
#include "model/json.h"

namespace h3 {
namespace {

constexpr Kind kKinds[] = {Kind::rows,         Kind::heads,         Kind::hidden_channels,
                           Kind::ffn_channels, Kind::time_channels, Kind::table_channels};

std::vector<std::int64_t> items_of(Run run) {
  std::vector<std::int64_t> items;
  for (std::int64_t i = 0; i < run.count; ++i) items.push_back(run.first + i);
  return items;
}

template <class... Arguments>
[[noreturn]] void reject(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  fail("not comparable with one rank: {}", fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace

Run share(std::int64_t items, int ranks, int rank) {
  const std::int64_t first = items * rank / ranks;
  return {first, items * (rank + 1) / ranks - first};
}

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"rows",         "heads",         "hidden_channels",
                                    "ffn_channels", "time_channels", "table_channels"};
  return kNames[std::size_t(kind)];
}

std::string Holding::to_text() const { return nlohmann::json(items).dump(); }

Holding holding_of_text(const std::string& text, int rank) {
  const std::string what = fmt::format("what rank {} holds", rank);
  const nlohmann::json json = parse_json(text, what);
  try {
    return {json.get<std::map<std::string, std::vector<std::int64_t>>>()};
  } catch (const nlohmann::json::exception&) {
    fail("{}: expected lists of items by kind", what);
  }
}

Ownership::Ownership(const Config& config, std::int64_t rows, int ranks)
    : ranks_(ranks),
      items_{rows,
             config.num_attention_heads,
             config.hidden_size / 8,
             config.ffn_dim / 8,
             config.time_embed_dim / 8,
             kTags * config.modulation_dim() / 72} {
  require(ranks >= 1, "ranks: {}, expected at least 1", ranks);
  for (const Kind kind : kKinds)
    require(items(kind) >= ranks, "{} ranks: there are {} {}, expected at least one for every rank", ranks,
            items(kind), name_of(kind));
}

std::int64_t Ownership::unit(Kind kind) const {
  switch (kind) {
    case Kind::rows:
      return 1;
    case Kind::heads:
      return 128;
    case Kind::table_channels:
      return 72;
    default:
      return 8;
  }
}

Holding Ownership::holding(int rank) const {
  Holding holding;
  for (const Kind kind : kKinds) holding.items[name_of(kind)] = items_of(of(kind, rank));
  for (const char* metadata : kRowMetadata) holding.items[metadata] = items_of(of(Kind::rows, rank));
  return holding;
}

void Ownership::require_comparable(std::span<const Holding> declared) const {
  if (int(declared.size()) != ranks_)
    reject("{} ranks declare what they hold, expected {}", declared.size(), ranks_);
  for (const Kind kind : kKinds) require_owners(name_of(kind), items(kind), false, declared);
  for (const char* metadata : kRowMetadata) require_owners(metadata, items(Kind::rows), true, declared);
}

void Ownership::require_owners(const std::string& kind, std::int64_t items, bool metadata,
                               std::span<const Holding> declared) const {
  const auto item = [&](std::int64_t i) {
    return metadata ? fmt::format("{} of row {}", kind, i) : fmt::format("item {} of {}", i, kind);
  };
  std::vector<int> owner(std::size_t(items), -1);
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto held = declared[std::size_t(rank)].items.find(kind);
    if (held == declared[std::size_t(rank)].items.end()) reject("rank {} declares no {}", rank, kind);
    for (const std::int64_t i : held->second) {
      if (i < 0 || i >= items) reject("rank {} holds {}, there are {}", rank, item(i), items);
      int& known = owner[std::size_t(i)];
      if (known >= 0) reject("{} is owned twice, by rank {} and rank {}", item(i), known, rank);
      known = rank;
    }
    if (!std::ranges::is_sorted(held->second))
      reject("rank {} holds its {} in another order than one rank", rank, kind);
  }
  for (int rank = 0; rank < ranks_; ++rank) {
    const Run run = share(items, ranks_, rank);
    for (std::int64_t i = run.first; i < run.first + run.count; ++i) {
      const int found = owner[std::size_t(i)];
      if (found < 0) reject("{} has no owner, expected rank {}", item(i), rank);
      if (found == rank) continue;
      if (metadata) reject("{} lies on rank {}, its row on rank {}: not co-sharded", item(i), found, rank);
      reject("{} is owned by rank {}, expected rank {}", item(i), found, rank);
    }
  }
}

}  // namespace h3
