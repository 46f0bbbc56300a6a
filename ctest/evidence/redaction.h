// What names a machine, its owner or its folders does not leave it. A value is replaced by a token that is
// the same wherever the value stood in the folder: [path-1], [host-1]. Kinds:
//   path     an absolute path; a file name with an extension stays: [path-1]/block0.h5
//   host     the machine's name, where it was run
//   user     the account's name
//   serial   a GPU's serial number
//   uuid     of a GPU or anything else
//   pci      a PCI address
//   address  IPv4
//   mail     an e-mail address
//   field    the value of a ledger field that is not on the list of fields
// Names and serial numbers are known to the machine alone; the other kinds have a form, so that a reader of
// the folder can check that none is left.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/report/ledger.h"
#include "model/json.h"

namespace h3::gate {

using PrivateNames = std::vector<std::pair<std::string, std::string>>;  // kind, value
PrivateNames private_names();                                           // of this machine

class Redactor {
 public:
  explicit Redactor(PrivateNames names) : names_(std::move(names)) {}

  std::string redacted(std::string_view text);
  // Only what a person or a system wrote: names of cases and numbers stay.
  nlohmann::ordered_json redacted_event(nlohmann::ordered_json event);

 private:
  std::string token(const std::string& kind, const std::string& value);
  PrivateNames names_;
  std::map<std::pair<std::string, std::string>, std::string> tokens_;
  std::map<std::string, int> counts_;
};

// Ledger and output log of a folder, rewritten where they hold something private; the ledger's chain of
// hashes is made anew. Files that hold nothing private keep their bytes.
void redact_folder(const std::string& folder, PrivateNames names);

// What was replaced, without the values: {"schema": "h3.redaction.v1", "replaced": [{"file", "field", "kind",
// "count", "distinct"}]}, counted from the tokens themselves. field: part.text, case_end.properties, ...; of
// the output log "".
nlohmann::ordered_json redactions(const Ledger& ledger, const std::string& output);

// "" or the first private value of a known form: "an absolute path at byte 17". It does not show the value.
std::string first_private(std::string_view text);
// The same of everything in an event; and a field that is not on the list.
std::string first_private_of_event(const nlohmann::ordered_json& event);

}  // namespace h3::gate
