#include "harness/page/sections.h"

namespace h3::page {

Markup sources_section(const Run& run) {
  Table table{.caption = "What this page was made of", .columns = {"file or folder", "schema", "SHA-256"}};
  for (const Source& source : run.inputs.sources)
    table.rows << row("", head(source.name) +
                              cell(source.schema == "ledger" ? "ledger of a gate, its root" : source.schema) +
                              element("td", element("code", source.sha256)));
  Markup code = table.code();
  if (!run.inputs.ignored.empty())
    code << element("p", {{"class", "note"}},
                    fmt::format("Not shown: {}.", fmt::join(run.inputs.ignored, ", ")));
  return section("sources", "Sources", "", code);
}

}  // namespace h3::page
