#include "conformance/listener.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "fixtures/path.h"
#include "harness/report/this_process.h"
#include "model/digest.h"
#include "model/text.h"

namespace h3 {
namespace {

std::string name_of(const testing::TestInfo& info) {
  return std::string(info.test_suite_name()) + "." + info.name();
}

const char* outcome_of(const testing::TestResult& result) {
  return result.Failed() ? "failed" : result.Skipped() ? "skipped" : "passed";  // a failure outweighs a skip
}

}  // namespace

bool is_allowed_skip(const std::string& message) {
  constexpr std::array<std::string_view, 4> kReasons = {"no_device", "wrong_arch", "too_little_memory",
                                                        "fixture_absent"};
  for (const std::string_view reason : kReasons)
    if (message.starts_with(std::string(reason) + ":")) return true;
  return false;
}

ConformanceListener::ConformanceListener(const std::string& ledger_path) {
  if (!ledger_path.empty()) ledger_.emplace(ledger_path);
}

void ConformanceListener::append(nlohmann::ordered_json event) {
  if (ledger_) ledger_->append(std::move(event));
}

void ConformanceListener::OnTestProgramStart(const testing::UnitTest& run) {
  append({{"event", "run_begin"}, {"filter", GTEST_FLAG_GET(filter)}, {"selected", run.test_to_run_count()}});
  if (!ledger_) return;
  libraries_ = loaded_libraries();
  const auto manifest = fixture_path("manifest.json");
  append({{"event", "binary"},
          {"build", build_facts()},
          {"variables", set_variables()},
          {"libraries", libraries_},
          {"fixtures_sha256", std::filesystem::exists(manifest) ? digest_file(manifest).sha256 : ""}});
}

void ConformanceListener::OnTestStart(const testing::TestInfo& info) {
  current_case_ = name_of(info);
  append({{"event", "case_begin"}, {"case", current_case_}, {"file", info.file()}, {"line", info.line()}});
  if (ledger_) ledger_->sync();
}

// Also called outside of a case, for what SetUpTestSuite and an Environment report: then `case` is empty.
void ConformanceListener::OnTestPartResult(const testing::TestPartResult& part) {
  if (part.passed()) return;
  if (part.skipped() && !is_allowed_skip(part.message())) every_skip_is_allowed_ = false;
  append({{"event", "part"},
          {"case", current_case_},
          {"kind", part.skipped() ? "skip" : "failure"},
          {"file", part.file_name() ? part.file_name() : ""},
          {"line", part.line_number()},
          {"text", part.message()}});
}

void ConformanceListener::OnTestEnd(const testing::TestInfo& info) {
  const testing::TestResult& result = *info.result();
  nlohmann::ordered_json properties = nlohmann::ordered_json::object();
  for (int i = 0; i < result.test_property_count(); ++i)
    properties[printable(result.GetTestProperty(i).key())] = result.GetTestProperty(i).value();
  append({{"event", "case_end"},
          {"case", current_case_},
          {"outcome", outcome_of(result)},
          {"seconds", double(result.elapsed_time()) / 1000},
          {"properties", std::move(properties)}});
  current_case_.clear();
}

void ConformanceListener::seal(int exit_code) {
  if (ledger_) {  // what dlopen brought
    nlohmann::ordered_json later = nlohmann::ordered_json::array();
    for (const auto& library : loaded_libraries())
      if (std::ranges::find(libraries_, library) == libraries_.end()) later.push_back(library);
    append({{"event", "loaded"}, {"libraries", std::move(later)}});
  }
  append({{"event", "run_end"}, {"exit_code", exit_code}});
  if (ledger_) ledger_->sync();
}

}  // namespace h3
