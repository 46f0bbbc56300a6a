#include "ctest/evidence/reviewer/record.h"

#include <map>
#include <optional>

#include "ctest/evidence/draws.h"
#include "fixtures/path.h"
#include "harness/compare/compare.h"
#include "harness/compare/provider_record.h"
#include "model/error.h"

namespace h3::gate {
namespace {

// What the provider's record says of a node or a gradient.
struct Recorded {
  std::string xxh3_128;  // "" where it does not repeat
  double bound = 0;
};

class Records {
 public:
  std::optional<Recorded> node(const std::string& layout, const std::string& name) {
    const auto& record = cached(nodes_, layout, "block0.h5");
    if (!record) return {};
    return Recorded{record->node(name).xxh3_128, record->node(name).bound()};
  }
  std::optional<Recorded> gradient(const std::string& layout, const std::string& name) {
    const auto& record = cached(gradients_, layout, "block0_backward.h5");
    if (!record) return {};
    const ProviderGradient& found = record->gradient(name);
    return Recorded{found.bytes ? found.bytes->xxh3_128 : "", found.bound().relative_l2.value_or(0)};
  }

 private:
  template <class Record>
  const std::optional<Record>& cached(std::map<std::string, std::optional<Record>>& loaded,
                                      const std::string& layout, const char* file) {
    const auto found = loaded.find(layout);
    return found != loaded.end()
               ? found->second
               : loaded.emplace(layout, Record::load(fixture_path(file), layout)).first->second;
  }
  std::map<std::string, std::optional<ProviderRecord>> nodes_;
  std::map<std::string, std::optional<ProviderGradients>> gradients_;
};

}  // namespace

RecordCheck against_the_record(const Verdict& verdict) {
  RecordCheck check;
  if (!records_digests(verdict)) return check;
  Records records;
  for (const auto& one : verdict.cases) {
    if (one.outcome != Outcome::passed) continue;
    const std::string layout = property(one, "layout"), node = property(one, "node"),
                      gradient = property(one, "gradient");
    if (layout.empty() || (node.empty() && gradient.empty())) continue;
    const auto recorded = gradient.empty() ? records.node(layout, node) : records.gradient(layout, gradient);
    if (!recorded) continue;
    const auto compare = [&](const char* key, const std::string& expected, std::size_t& count) {
      const std::string found = property(one, key);
      if (found.empty() || expected.empty()) return;
      ++count;
      if (found != expected)
        check.differences.push_back(fmt::format("ledger.jsonl: {} has {} {}, the provider's record says {}",
                                                one.name, key, found, expected));
    };
    if (one.name.find(".equals_provider/") != std::string::npos)
      compare("xxh3_128", recorded->xxh3_128, check.digests);
    if (property(one, "metric") == "relative_l2")
      compare("limit", fmt::format("{:.9g}", recorded->bound), check.limits);
  }
  return check;
}

}  // namespace h3::gate
