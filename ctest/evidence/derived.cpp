#include "ctest/evidence/derived.h"

#include <filesystem>

#include "ctest/evidence/ctrf.h"
#include "ctest/evidence/folder.h"
#include "ctest/evidence/redaction.h"
#include "ctest/evidence/report.h"
#include "ctest/files.h"
#include "ctest/junit.h"
#include "model/json.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// As h3_gate wrote it at the end; of an interrupted run as the list says.
std::string gate_of(const Ledger& ledger, const RequiredList& required) {
  const std::string& first = required.cases.front();
  const std::string listed = first.substr(0, first.find('/'));
  return ledger.events.empty() ? listed : ledger.events.back().value("gate", listed);
}

}  // namespace

Derived derive(const std::string& folder) {
  const fs::path root(folder);
  Derived derived;
  derived.ledger = read_ledger(root / kLedgerFile);
  derived.required = read_required(root / kRequiredFile);
  derived.verdict = judge(gate_of(derived.ledger, derived.required), derived.ledger, derived.required.cases);
  const std::string junit = junit_xml(derived.verdict);
  const Json report = report_of(derived.verdict, derived.ledger);
  const std::string output = fs::exists(root / kOutputFile) ? read_file(root / kOutputFile) : "";
  derived.files = {{kJunitFile, junit},
                   {kReportFile, text_of(report)},
                   {kCtrfFile, text_of(ctrf_of(report))},
                   {kReceiptFile, text_of(receipt_of(report, junit))},
                   {kRedactionFile, text_of(redactions(derived.ledger, output))}};
  return derived;
}

}  // namespace h3::gate
