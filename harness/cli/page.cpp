// h3 page: what evidence and reports say, as a page for people.
#include "harness/page/page.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "harness/cli/commands.h"
#include "model/atomic_file.h"
#include "model/json.h"

namespace h3::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> inputs, against;
  std::string out = "page", one_file;
  bool json = false;
};

void write_page(const Options& options) {
  const page::Run run(options.inputs);
  std::optional<page::Run> other;
  if (!options.against.empty()) other.emplace(options.against);
  const page::Run* against = other ? &*other : nullptr;
  const std::vector<page::File> files = page::static_page(run, against);
  fs::create_directories(options.out);
  std::size_t bytes = 0;
  for (const page::File& file : files) {
    write_file((fs::path(options.out) / file.name).string(), file.bytes);
    bytes += file.bytes.size();
  }
  const std::string index = (fs::path(options.out) / "index.html").string();
  std::size_t one_file_bytes = 0;
  if (!options.one_file.empty()) {
    const page::File file = page::one_file(run, against);
    write_file(options.one_file, file.bytes);
    one_file_bytes = file.bytes.size();
  }
  if (options.json) {
    const nlohmann::ordered_json said = {{"page", index},          {"files", files.size()},
                                         {"bytes", bytes},         {"one_file_bytes", one_file_bytes},
                                         {"closed", run.closed()}, {"not_shown", run.inputs.ignored}};
    fmt::print("{}\n", said.dump(2));
    return;
  }
  fmt::print("{}: {} files, {} bytes\n", index, files.size(), grouped(std::int64_t(bytes)));
  if (one_file_bytes > 0)
    fmt::print("{}: {} bytes\n", options.one_file, grouped(std::int64_t(one_file_bytes)));
  for (const std::string& name : run.inputs.ignored) fmt::print("not shown: {}\n", name);
}

}  // namespace

void add_page(CLI::App& app) {
  auto* command =
      app.add_subcommand("page", "A page from evidence folders and reports: index.html, style.css, SVG");
  command->footer(
      R"(Inputs: evidence folders of gates; reports of replay, fullmodel, power, ulp, diagnose, generate compare and
media; or folders of such.
Examples:
  h3 page build/evidence build/reports --out page
  h3 page build/evidence/block0 r.json --one-file page.html      also one file that searches and sorts
  h3 page build/evidence --against last/evidence                 what changed since
The page has no script and no inline style: Jenkins shows it as it is.
Exit: 0 written, 2 bad input.)");
  auto options = std::make_shared<Options>();
  command->add_option("inputs", options->inputs, "evidence folders and reports")->required();
  command->add_option("--against", options->against, "those of another run to compare with");
  command->add_option("--out", options->out, "folder for the page")->capture_default_str();
  command->add_option("--one-file", options->one_file, "also write all of it as one interactive file");
  command->add_flag("--json", options->json, "print JSON: what was written, and whether the run is closed");
  command->callback([=] { write_page(*options); });
}

}  // namespace h3::cli
