#include "model/json.h"

#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "model/error.h"

namespace h3 {

nlohmann::json parse_json(std::string_view text, const std::string& what) {
  constexpr int kDeepest = 64;
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Event event, nlohmann::json& value) {
    require(depth <= kDeepest, "{}: JSON nested deeper than {} levels", what, kDeepest);
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      require(keys.back().insert(key).second, "{}: '{}' appears twice", what, key);
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&error);
    fail("{}: not valid JSON{}", what, parse ? fmt::format(", at byte {}", parse->byte) : "");
  }
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require(file.good(), "{}: cannot open", path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  require(!file.bad(), "{}: cannot read", path);
  return parse_json(text, path);
}

}  // namespace h3
