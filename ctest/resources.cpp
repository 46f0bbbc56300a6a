#include "ctest/resources.h"

#include <charconv>
#include <cstdlib>
#include <sstream>

#include "ctest/environment.h"
#include "model/error.h"

namespace h3::gate {
namespace {

std::size_t number_in(const std::string& text, const std::string& where) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error == std::errc() && end == text.data() + text.size(), "{}: '{}', expected a number", where,
          text);
  return value;
}

}  // namespace

std::vector<std::string> visible_gpus() {
  std::vector<std::string> visible;
  if (const char* chosen = std::getenv("CUDA_VISIBLE_DEVICES")) {
    std::istringstream entries(chosen);
    for (std::string entry; std::getline(entries, entry, ',') && entry != "-1";) visible.push_back(entry);
    return visible;
  }
  for (std::size_t i = 0; i < environment().at("gpus").size(); ++i) visible.push_back(std::to_string(i));
  return visible;
}

nlohmann::ordered_json resource_spec(const std::vector<std::string>& visible) {
  auto gpus = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < visible.size(); ++i) gpus.push_back({{"id", std::to_string(i)}, {"slots", 1}});
  return {{"version", {{"major", 1}, {"minor", 0}}}, {"local", {{{"gpus", std::move(gpus)}}}}};
}

std::vector<std::string> assigned_gpus(const std::vector<std::string>& visible) {
  const char* groups = std::getenv("CTEST_RESOURCE_GROUP_COUNT");
  if (!groups) return {};
  std::vector<std::string> assigned;
  for (std::size_t i = 0; i < number_in(groups, "CTEST_RESOURCE_GROUP_COUNT"); ++i) {
    const std::string variable = fmt::format("CTEST_RESOURCE_GROUP_{}_GPUS", i), begin = "id:";
    const char* value = std::getenv(variable.c_str());  // "id:0,slots:1"
    require(value && std::string(value).starts_with(begin), "{}: '{}', expected id:<number>,slots:<number>",
            variable, value ? value : "");
    const std::string text = value;
    const std::size_t id = number_in(text.substr(begin.size(), text.find(',') - begin.size()), variable);
    require(id < visible.size(), "{}: GPU {} of {} that are visible", variable, id, visible.size());
    assigned.push_back(visible[id]);
  }
  return assigned;
}

std::string refused_without_gpus(std::size_t count, const std::vector<std::string>& assigned,
                                 const std::vector<std::string>& visible) {
  if (assigned.size() >= count || visible.size() < count) return "";
  return fmt::format(
      "CTest assigned {} of {} GPUs: pass it --resource-spec-file, written by h3_gate --resources FILE",
      assigned.size(), count);
}

}  // namespace h3::gate
