#include "ctest/evidence/report.h"

#include <cmath>
#include <cstdlib>

#include "model/digest.h"
#include "model/error.h"

namespace h3::gate {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(Outcome outcome) {
  return outcome == Outcome::passed ? "passed" : outcome == Outcome::failed ? "failed" : "not-run";
}

// The last event of its kind; an empty object without one.
Json event_named(const Ledger& ledger, const std::string& name) {
  Json found = Json::object();
  for (const Json& event : ledger.events)
    if (event["event"] == name) found = event;
  return found;
}

Json value_or_null(const Json& event, const char* key) { return event.contains(key) ? event[key] : Json(); }

Json hash_or_null(const Json& event, const char* key) {
  const Json value = value_or_null(event, key);
  return value.is_string() && value != "" ? value : Json();
}

// What the process says of itself, with the libraries that it loaded later.
Json binary_of(const Ledger& ledger) {
  const Json begin = event_named(ledger, "binary");
  if (begin.size() == 0) return nullptr;
  Json binary = {{"build", value_or_null(begin, "build")},
                 {"variables", value_or_null(begin, "variables")},
                 {"libraries", begin.value("libraries", Json::array())}};
  for (const Json& later : event_named(ledger, "loaded").value("libraries", Json::array()))
    binary["libraries"].push_back(later);
  return binary;
}

// The number that a case recorded, null where it is absent or none.
Json number(const Json& properties, const char* key) {
  const std::string text = properties.value(key, "");
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end != '\0' || !std::isfinite(value) ? Json() : Json(value);
}

// <gate>/<suite>.<claim>/<row>
void split_name(const std::string& name, Json& json) {
  const std::size_t slash = name.find('/'), dot = name.find('.'), last = name.rfind('/');
  const bool whole = slash < dot && dot < last && last != std::string::npos;
  json["suite"] = whole ? name.substr(slash + 1, dot - slash - 1) : "";
  json["claim"] = whole ? name.substr(dot + 1, last - dot - 1) : "";
  json["row"] = whole ? name.substr(last + 1) : "";
}

Json case_of(const CaseVerdict& one) {
  Json json = {{"name", one.name}};
  split_name(one.name, json);
  json["outcome"] = name_of(one.outcome);
  json["required"] = one.required;
  json["skipped"] = one.skipped;
  json["seconds"] = one.seconds;
  json["file"] = one.file;
  json["line"] = one.line;
  json["type"] = one.type;
  json["message"] = one.message;
  json["text"] = one.text;
  Json properties = Json::object();
  for (const auto& [key, value] : one.properties) properties[key] = value;
  // A rejected claim outweighs an accepted one of the same case.
  const bool rejected = one.outcome != Outcome::passed && properties.contains("rejected_by");
  const Json limit = number(properties, rejected ? "rejected_limit" : "limit"),
             measured = number(properties, rejected ? "rejected_measured" : "measured");
  const char* metric = rejected ? "rejected_by" : "metric";
  json["metric"] = properties.contains(metric) ? properties[metric] : Json();
  json["limit"] = limit;
  json["measured"] = measured;
  json["used"] = limit.is_number() && measured.is_number() && limit > 0
                     ? Json(measured.get<double>() / limit.get<double>())
                     : Json();
  json["properties"] = std::move(properties);
  return json;
}

}  // namespace

Json report_of(const Verdict& verdict, const Ledger& ledger) {
  const Json end = event_named(ledger, "process_end"), begin = event_named(ledger, "binary");
  Json report = {{"schema", "h3.gate.v1"},
                 {"gate", verdict.gate},
                 {"verdict", verdict.closed() ? "closed" : "not closed"},
                 {"summary", verdict.summary()},
                 {"counts",
                  {{"required", verdict.required},
                   {"ran", verdict.ran},
                   {"passed", verdict.passed},
                   {"failed", verdict.failed},
                   {"skipped", verdict.skipped},
                   {"missing", verdict.missing},
                   {"unlisted", verdict.unlisted}}},
                 {"started", verdict.started},
                 {"seconds", verdict.seconds},
                 {"problems", Json::array()},
                 {"cases", Json::array()},
                 {"environment", value_or_null(end, "environment")},
                 {"binary", binary_of(ledger)},
                 {"inputs",
                  {{"required_sha256", hash_or_null(end, "required_sha256")},
                   {"binary_sha256", hash_or_null(end, "binary_sha256")},
                   {"fixtures_sha256", hash_or_null(begin, "fixtures_sha256")}}},
                 {"git", value_or_null(end, "git")},
                 {"ledger_root", ledger.root}};
  for (const auto& [name, text] : verdict.problems)
    report["problems"].push_back({{"name", name}, {"text", text}});
  for (const auto& one : verdict.cases) report["cases"].push_back(case_of(one));
  return report;
}

Json receipt_of(const Json& report, const std::string& junit) {
  Json receipt = {{"gate", report["gate"]}, {"verdict", report["verdict"]}};
  receipt.update(report["counts"]);
  for (const char* key : {"started", "seconds"}) receipt[key] = report[key];
  receipt.update(report["inputs"]);
  for (const char* key : {"environment", "ledger_root"}) receipt[key] = report[key];
  receipt["junit_sha256"] = sha256_hex(junit);
  receipt["git"] = report["git"];
  return receipt;
}

}  // namespace h3::gate
