// The files of an evidence folder, by name. A sealed folder holds these and no others.
#pragma once

namespace h3::gate {

// What happened; written during the run.
inline constexpr const char* kLedgerFile = "ledger.jsonl";
inline constexpr const char* kRequiredFile = "required.txt";
inline constexpr const char* kOutputFile = "output.log";

// What follows from it (ctest/evidence/derived.h).
inline constexpr const char* kJunitFile = "junit.xml";
inline constexpr const char* kReportFile = "report.json";
inline constexpr const char* kCtrfFile = "ctrf.json";
inline constexpr const char* kReceiptFile = "receipt.json";
inline constexpr const char* kRedactionFile = "redaction.json";

// The seal (ctest/evidence/seal.h).
inline constexpr const char* kSumsFile = "SHA256SUMS";
inline constexpr const char* kSignatureFile = "SHA256SUMS.sig";  // may be absent
inline constexpr const char* kCompleteFile = "COMPLETE";

}  // namespace h3::gate
