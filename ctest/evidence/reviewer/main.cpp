// h3_evidence: for a reviewer who was not there. A program of its own, without GPU code and without the
// binary that was judged; what it derives again it derives with the CPU twins.
// Exit code: 0 the folder is sound and its gate closed; 1 refused, or not closed; 2 bad input.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <random>

#include "ctest/evidence/draws.h"
#include "ctest/evidence/publish.h"
#include "ctest/evidence/reviewer/record.h"
#include "ctest/evidence/signature.h"
#include "ctest/evidence/verify.h"
#include "harness/replay/twin_digests.h"
#include "model/error.h"
#include "model/json.h"

namespace h3::gate {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(examples:
  h3_evidence verify build/evidence/block0
  h3_evidence verify DIR --gate block0_cuda --required ctest/required/block0_cuda.txt
  h3_evidence verify DIR --draws 17 --seed 7        every node of layout tiny, derived again on this CPU
  h3_evidence verify DIR --signers allowed_signers  and who signed it

  ssh-keygen -Y sign -n h3-evidence -f ~/.ssh/id_ed25519 DIR/SHA256SUMS    signs (leaves SHA256SUMS.sig)
  sha256sum -c COMPLETE SHA256SUMS                  the bytes alone, inside DIR, without this program

exit codes: 0 sound and closed, 1 refused or not closed, 2 bad input)";

struct Options {
  std::string folder, signers, layout = "tiny";
  Expected expected;
  std::size_t draws = 4;
  std::optional<std::uint64_t> seed;
  bool json = false;
};

struct Redrawn {
  std::uint64_t seed = 0;
  std::size_t recorded = 0;
  std::vector<RecordedDigest> drawn;
  std::map<std::string, std::string> derived;  // by node
  double seconds = 0;

  bool equal(const RecordedDigest& one) const { return derived.at(one.node) == one.xxh3_128; }
};

Redrawn redraw(const Options& options, const Verdict& verdict) {
  Redrawn result;
  result.seed = options.seed ? *options.seed : std::random_device{}();
  const auto recorded = recorded_digests(verdict, options.layout);
  result.recorded = recorded.size();
  result.drawn = draw(recorded, options.draws, result.seed);
  std::set<std::string> nodes;
  for (const auto& one : result.drawn) nodes.insert(one.node);
  const auto start = std::chrono::steady_clock::now();
  if (!nodes.empty()) result.derived = twin_digests(options.layout, nodes);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

Json json_of(const Redrawn& redrawn) {
  Json json = {{"seed", redrawn.seed},
               {"recorded", redrawn.recorded},
               {"seconds", redrawn.seconds},
               {"drawn", Json::array()}};
  for (const auto& one : redrawn.drawn)
    json["drawn"].push_back({{"case", one.case_name},
                             {"node", one.node},
                             {"recorded", one.xxh3_128},
                             {"derived", redrawn.derived.at(one.node)},
                             {"equal", redrawn.equal(one)}});
  return json;
}

void print_reasons(const Verdict& verdict) {
  constexpr std::size_t kMost = 20;
  std::size_t red = 0;
  for (const auto& [name, text] : verdict.problems) fmt::print("  {}: {}\n", name, text);
  for (const auto& one : verdict.cases)
    if (one.outcome != Outcome::passed && red++ < kMost) fmt::print("  {}\n    {}\n", one.name, one.message);
  if (red > kMost) fmt::print("  ... and {} more, see junit.xml\n", red - kMost);
}

void print(const Verification& found, const Signature& signature, const RecordCheck& record,
           const Redrawn& redrawn, const std::string& layout) {
  const Verdict& verdict = found.derived.verdict;
  for (const auto& refusal : found.refusals) fmt::print("refused: {}\n", refusal);
  if (verdict.gate.empty()) return;  // refused before anything could be judged
  fmt::print("ledger  {} events, root {}\n", found.derived.ledger.events.size(), found.derived.ledger.root);
  fmt::print("seal    {}\n", signature.said);
  if (record.digests + record.limits > 0)
    fmt::print("record  {} digests and {} limits held against the provider's record: {} differ\n",
               record.digests, record.limits, record.differences.size());
  if (redrawn.recorded == 0 && records_digests(verdict))
    fmt::print("draws   this gate recorded no digest of a node of layout {}\n", layout);
  if (redrawn.recorded > 0)
    fmt::print("draws   {} of {} recorded digests derived again on this CPU in {:.1f} s, seed {}\n",
               redrawn.drawn.size(), redrawn.recorded, redrawn.seconds, redrawn.seed);
  for (const auto& one : redrawn.drawn)
    fmt::print("        {:<17} {}  {}\n", one.node, one.xxh3_128, redrawn.equal(one) ? "equal" : "differs");
  print_reasons(verdict);
  fmt::print("{}{}\n", verdict.summary(), found.refusals.empty() ? "" : ": refused");
}

int verify_command(const Options& options) {
  Verification found = verify(options.folder, options.expected);
  Signature signature;
  RecordCheck record;
  Redrawn redrawn;
  if (found.refusals.empty()) {
    signature = check_signature(options.folder, options.signers);
    if (!options.signers.empty() && !signature.valid)
      found.refusals.push_back("SHA256SUMS.sig: " + signature.said);
  }
  try {
    if (found.refusals.empty()) {
      record = against_the_record(found.derived.verdict);
      found.refusals = record.differences;
    }
    if (found.refusals.empty()) {
      redrawn = redraw(options, found.derived.verdict);
      for (const auto& one : redrawn.drawn)
        if (!redrawn.equal(one))
          found.refusals.push_back(fmt::format("ledger.jsonl: {} recorded {} for {}, the CPU twin gives {}",
                                               one.case_name, one.xxh3_128, one.node,
                                               redrawn.derived.at(one.node)));
    }
  } catch (const Error& error) {  // a node or a gradient that does not exist
    found.refusals.push_back(fmt::format("ledger.jsonl: {}", error.what()));
  }
  const Verdict& verdict = found.derived.verdict;
  const bool accepted = found.refusals.empty() && verdict.closed();
  if (!options.json) {
    print(found, signature, record, redrawn, options.layout);
  } else {
    const Json json = {{"refused", found.refusals},
                       {"gate", verdict.gate},
                       {"summary", verdict.gate.empty() ? "" : verdict.summary()},
                       {"closed", found.refusals.empty() && verdict.closed()},
                       {"ledger_root", found.derived.ledger.root},
                       {"signature", signature.said},
                       {"record", {{"digests", record.digests}, {"limits", record.limits}}},
                       {"draws", json_of(redrawn)},
                       {"accepted", accepted}};
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  }
  return accepted ? 0 : 1;
}

int seal_command(const Options& options) {
  publish_interrupted(options.folder);
  fmt::print("sealed: {}\n", options.folder);
  return 0;
}

}  // namespace
}  // namespace h3::gate

int main(int argc, char** argv) {
  h3::gate::Options options;
  int code = 0;
  CLI::App app("Verifies the evidence folder of a gate, without the machine and the binary that made it",
               "h3_evidence");
  app.require_subcommand(1);
  app.footer(h3::gate::kExamples);
  CLI::App* verify =
      app.add_subcommand("verify", "is the folder sealed, whole and in itself true, and did the gate close?");
  verify->footer(h3::gate::kExamples);
  verify->add_option("folder", options.folder, "evidence folder")->required();
  verify->add_option("--gate", options.expected.gate, "the gate that it has to be of");
  verify->add_option("--required", options.expected.required,
                     "the list of cases that must have been required");
  verify->add_option("--signers", options.signers,
                     "allowed signers (ssh-keygen); a folder without their signature is refused");
  verify->add_option("--draws", options.draws, "how many recorded digests are derived again")
      ->capture_default_str();
  verify->add_option("--layout", options.layout, "whose digests: tiny takes seconds, small and medium longer")
      ->capture_default_str();
  verify->add_option("--seed", options.seed, "of the draw; random, and printed");
  verify->add_flag("--json", options.json, "for programs");
  verify->callback([&] { code = h3::gate::verify_command(options); });
  CLI::App* seal = app.add_subcommand(
      "seal", "reports and seal for a folder whose h3_gate was killed; its ledger then says so");
  seal->add_option("folder", options.folder, "evidence folder")->required();
  seal->callback([&] { code = h3::gate::seal_command(options); });
  try {
    app.parse(argc, argv);
    return code;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "h3_evidence: {} (--help shows how)\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "h3_evidence: {}\n", error.what());
    return 2;
  }
}
