#include "ctest/evidence/ctrf.h"

#include <cmath>
#include <ctime>
#include <string>

namespace h3::gate {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t milliseconds(const Json& seconds) { return std::llround(1000 * seconds.get<double>()); }

// Since 1970; 0 where a run did not come to its end.
std::int64_t milliseconds_of_utc(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  return end && *end == '\0' ? 1000 * std::int64_t(::timegm(&parts)) : 0;
}

Json test_of(const std::string& gate, const Json& one) {
  const bool passed = one["outcome"] == "passed";
  Json test = {{"name", one["name"]},
               {"status", passed ? "passed" : "failed"},
               {"duration", milliseconds(one["seconds"])},
               {"suite", {gate, one["suite"]}},
               {"rawStatus", one["outcome"]}};
  if (one["file"] != "") {
    test["filePath"] = one["file"];
    test["line"] = one["line"];
  }
  if (!passed) {
    test["message"] = one["message"];
    test["trace"] = one["text"];
  }
  Json numbers = Json::object();
  for (const char* key : {"metric", "limit", "measured"})
    if (!one[key].is_null()) numbers[key] = one[key];
  if (!numbers.empty()) test["extra"] = std::move(numbers);
  return test;
}

Json test_of_problem(const std::string& gate, const Json& problem) {
  return {{"name", gate + " run: " + problem["name"].get<std::string>()},
          {"status", "failed"},
          {"duration", 0},
          {"suite", {gate, "run"}},
          {"rawStatus", "gate"},
          {"message", problem["text"]}};
}

}  // namespace

Json ctrf_of(const Json& report) {
  const std::string gate = report["gate"];
  Json tests = Json::array();
  std::int64_t passed = 0;
  for (const Json& one : report["cases"]) {
    tests.push_back(test_of(gate, one));
    passed += tests.back()["status"] == "passed";
  }
  for (const Json& problem : report["problems"]) tests.push_back(test_of_problem(gate, problem));
  const std::int64_t start = milliseconds_of_utc(report["started"]);
  Json environment = {{"reportName", "h3." + gate}, {"testEnvironment", report["verdict"]}};
  if (report["git"].is_object()) environment["commit"] = report["git"].value("commit", "");
  Json results = {{"tool", {{"name", "h3_gate"}}},
                  {"summary",
                   {{"tests", tests.size()},
                    {"passed", passed},
                    {"failed", std::int64_t(tests.size()) - passed},
                    {"pending", 0},
                    {"skipped", 0},
                    {"other", 0},
                    {"start", start},
                    {"stop", start + milliseconds(report["seconds"])}}},
                  {"tests", std::move(tests)},
                  {"environment", std::move(environment)}};
  return {{"reportFormat", "CTRF"}, {"specVersion", "0.1.0"}, {"results", std::move(results)}};
}

}  // namespace h3::gate
