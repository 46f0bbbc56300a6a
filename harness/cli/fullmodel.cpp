// h3 fullmodel: the whole model forward and backward against its bounds, and the pass that freezes them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>

#include "fixtures/manifest.h"
#include "fixtures/path.h"
#include "harness/cli/commands.h"
#include "harness/full_model/drift_ledger.h"
#include "harness/full_model/full_model_check.h"
#include "harness/full_model/report_full_model.h"
#include "harness/report/progress.h"
#include "model/atomic_file.h"
#include "model/config_json.h"
#include "model/json.h"
#include "model/named_configs.h"
#include "model/safetensors.h"

namespace h3::cli {
namespace {

namespace fs = std::filesystem;

// ---- the gate ----

struct GateOptions {
  FullModelRequest request;
  std::string report, receipt;
  bool json = false;
};

void run_gate(const GateOptions& options) {
  if (!options.receipt.empty()) fs::remove(options.receipt);  // an old one says nothing about this run
  const FullModelReport report = [&] {
    std::unique_ptr<Progress> bar;
    return check_full_model(options.request, [&](std::int64_t done, std::int64_t steps,
                                                 const std::string& next) {
      if (!bar)
        bar = std::make_unique<Progress>("fullmodel " + options.request.config, steps, Progress::Unit::steps);
      bar->step(done, next);
    });
  }();
  const std::string text = to_json(report).dump(2) + "\n";
  if (!options.report.empty()) write_file(options.report, text);
  std::fputs((options.json ? text : to_table(report, isatty(STDOUT_FILENO))).c_str(), stdout);
  if (!report.accepted()) throw CheckFailed();
  if (!options.receipt.empty()) write_file(options.receipt, receipt_of(report, text).dump(2) + "\n");
}

// ---- what the provider's exporter reads ----

struct InputsOptions {
  std::string config = "reduced", layout = "tiny", out;
  std::uint64_t seed = kDefaultSeed;
};

void write_tensors(const std::string& path, const Values& values) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, tensor] : values)
    specs.push_back({.name = name, .shape = tensor.shape(), .dtype = tensor.dtype()});
  write_safetensors(path, specs, [&](const TensorSpec& spec) { return values.at(spec.name); });
}

// What a tensor is made of (model/synthetic_rule.h), for fixtures/synthetic.py; of tensors that are quickly
// made also what it has to come to.
nlohmann::ordered_json json_of(const TensorSpec& spec, const SyntheticWeights& weights) {
  constexpr std::int64_t kQuick = std::int64_t(1) << 20;  // elements
  constexpr const char* kPatterns[] = {"even", "outliers", "modulation"};
  const SyntheticRule rule = weights.rule(spec.name);
  nlohmann::ordered_json json = {{"name", spec.name},
                                 {"dtype", name_of(spec.dtype)},
                                 {"shape", spec.shape},
                                 {"key", rule.key},
                                 {"std", rule.std},
                                 {"mean", rule.mean},
                                 {"planted", rule.planted},
                                 {"pattern", kPatterns[int(rule.pattern)]},
                                 {"channels", rule.channels},
                                 {"inner", rule.inner},
                                 {"outlier", rule.outlier},
                                 {"outlier_factor", rule.outlier_factor},
                                 {"part_width", rule.part_width},
                                 {"gate_mean", rule.gate_mean},
                                 {"small_scale", rule.small_scale}};
  if (spec.elements() <= kQuick) json["sha256"] = weights.tensor_sha256(spec);
  return json;
}

void write_inputs(const InputsOptions& options) {
  const Config config = config_named(options.config);
  const PackedLayout layout = named_layout(options.layout);
  Values inputs = model_inputs(layout, config, options.seed);
  inputs["token_tags"] = layout.token_tags_tensor();
  fs::create_directories(options.out);
  write_tensors(options.out + "/inputs.safetensors", inputs);
  write_tensors(options.out + "/gradients.safetensors", model_output_gradients(layout, config, options.seed));
  const SyntheticWeights weights(options.seed, config);
  nlohmann::ordered_json rules = {{"config", config_to_json(config)}};
  for (const TensorSpec& spec : tensor_specs(config)) rules["tensors"].push_back(json_of(spec, weights));
  write_file(options.out + "/rules.json", rules.dump(1) + "\n");
  const nlohmann::ordered_json facts = {{"config", options.config},
                                        {"layout", options.layout},
                                        {"weights", weights.identity()},
                                        {"seed", options.seed}};
  write_file(options.out + "/inputs.json", facts.dump(2) + "\n");
}

// ---- the reference pass ----

struct ReferenceOptions {
  std::string config = "reduced", layout = "tiny";
  bool check = false;
};

void run_reference(const ReferenceOptions& options) {
  const std::string file = ensemble_file(options.config, options.layout),
                    path = fixture_path(bounds_file(options.config, options.layout)).string();
  const Ensemble ensemble = ensemble_from_json(read_json(fixture_path(file).string()), file);
  const std::string text = bounds_text(ensemble);
  for (const Measure measure : kMeasures) {
    const EnsembleRule rule = rule_of(ensemble, measure);
    for (std::size_t m = 0; m < ensemble.members.size(); ++m)
      std::printf("%-9s %-16s needs %.3f x the others, decided by %s\n", name_of(measure),
                  ensemble.members[m].c_str(), rule.held_out[m], rule.tensor[m].c_str());
    std::printf("%-9s k = %.1f for %zu tensors of %zu members\n", name_of(measure), rule.k,
                ensemble.tensors.size(), ensemble.members.size());
  }
  if (!options.check) {
    write_file(path, text);
    std::printf("%s written; h3 fixtures manifest takes it\n", path.c_str());
    return;
  }
  load_bounds(options.config, options.layout);  // names what differs
  std::printf("%s: as recorded\n", path.c_str());
}

// ---- the drift ledger ----

struct LedgerOptions {
  std::string config = "reduced", layout = "tiny", engine = "cpu";
  NodeSwap swap = {};
  std::uint64_t seed = kDefaultSeed;
  std::int64_t blocks = 1;
  bool json = false;
};

void print_ledger(const LedgerOptions& options) {
  const Config config = config_named(options.config);
  auto candidate = engine_named(options.engine, config);
  if (!options.swap.nodes.empty()) candidate = swap_nodes(std::move(candidate), options.swap, config);
  const auto golden =
      candidate->device() == Device::cuda ? golden_execution_on_gpu(config) : golden_execution(false, config);
  std::unique_ptr<Progress> bar;
  DriftLedger ledger = drift_ledger(
      *candidate, *golden, SyntheticWeights(options.seed, config), named_layout(options.layout), options.seed,
      [&](std::int64_t done, std::int64_t steps, const std::string& stage) {
        if (!bar) bar = std::make_unique<Progress>("drift ledger", steps, Progress::Unit::steps);
        bar->step(done, stage);
      },
      options.blocks);
  bar.reset();
  ledger.config = options.config;
  ledger.layout = options.layout;
  std::fputs((options.json ? to_json(ledger).dump(2) + "\n" : to_table(ledger)).c_str(), stdout);
}

// Nodes that another execution computes, of one kind at a time.
void add_swap(CLI::App& command, NodeSwap& swap) {
  const auto add = [&](const std::string& by, const char* what) {
    return command
        .add_option_function<std::vector<std::string>>(
            "--" + by + "-nodes",
            [&swap, by](const std::vector<std::string>& nodes) {
              swap = {by, nodes};
            },
            what)
        ->allow_extra_args(false)
        ->delimiter(',');
  };
  CLI::Option* const golden =
      add("golden", "a diagnosis: these nodes (attention,q_proj,...) as the golden, rounded to BF16");
  add("provider", "likewise, as the provider's libraries on this GPU")->excludes(golden);
}

}  // namespace

void add_fullmodel(CLI::App& app) {
  auto* command =
      app.add_subcommand("fullmodel", "The whole model, forward and backward, against its bounds");
  command->footer(R"(Examples:
  h3 fullmodel                                          the reduced model on this CPU: block 0 first, then 4 blocks
  h3 fullmodel --config released --layout small --engine cuda --report r.json --receipt receipt.json
                                                        50 blocks and 638 parameter gradients, on a Hopper GPU
  h3 fullmodel --engine ./libmine.so                    with somebody else's kernels (harness/candidate/h3_candidate.h)
  h3 fullmodel --block0-receipt build/evidence/block0/receipt.json
  h3 fullmodel --golden-nodes attention,q_norm          a diagnosis, never closed: how much of the drift is left when
                                                        these nodes are the golden's; --provider-nodes likewise
  h3 fullmodel inputs --out /tmp/full                   rules of the weights, inputs and gradients for
                                                        fixtures/export_full_model.py
  h3 fullmodel ledger                                   which stage put how much into the outputs' final drift
  h3 fullmodel ledger --config released --engine cuda --blocks 5
  h3 fullmodel reference --check                        whether the bounds follow from the recorded ensemble
Exit: 0 closed, 1 a tensor beyond its bound or missing, 2 bad input.)");
  auto gate = std::make_shared<GateOptions>();
  command->add_option("--config", gate->request.config, "reduced or released")->capture_default_str();
  command->add_option("--layout", gate->request.layout, "tiny, small or medium")->capture_default_str();
  command->add_option("--engine", gate->request.engine, "cpu, cuda on a Hopper GPU, or a candidate's library")
      ->capture_default_str();
  command->add_option("--checkpoint", gate->request.checkpoint, "folder with the weights of the bounds");
  command->add_option("--block0-receipt", gate->request.block0_receipt,
                      "receipt.json of a closed gate block0, instead of a replay of block 0");
  add_swap(*command, gate->request.swap);
  command->add_option("--report", gate->report, "write the report here");
  command->add_option("--receipt", gate->receipt, "write a receipt here when the gate is closed");
  command->add_flag("--json", gate->json, "print the report as JSON instead of the table");

  auto inputs = std::make_shared<InputsOptions>();
  auto* write = command->add_subcommand("inputs", "Write what the provider's exporter runs on");
  write->add_option("--config", inputs->config, "reduced or released")->capture_default_str();
  write->add_option("--layout", inputs->layout, "named layout")->capture_default_str();
  write->add_option("--seed", inputs->seed, "seed of weights and inputs")->capture_default_str();
  write->add_option("--out", inputs->out, "folder")->required();
  write->callback([=] { write_inputs(*inputs); });

  auto ledger = std::make_shared<LedgerOptions>();
  auto* print = command->add_subcommand("ledger", "Share of every stage in the final drift of the outputs");
  print->add_option("--config", ledger->config, "reduced or released")->capture_default_str();
  print->add_option("--layout", ledger->layout, "named layout")->capture_default_str();
  print->add_option("--engine", ledger->engine, "cpu, or cuda on a Hopper GPU")->capture_default_str();
  print->add_option("--seed", ledger->seed, "seed of weights and inputs")->capture_default_str();
  print->add_option("--blocks", ledger->blocks, "transformer blocks to a line: more are fewer runs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_swap(*print, ledger->swap);
  print->add_flag("--json", ledger->json, "print JSON instead of the table");
  print->callback([=] { print_ledger(*ledger); });

  auto reference = std::make_shared<ReferenceOptions>();
  auto* freeze =
      command->add_subcommand("reference", "Freeze the bounds that follow from the provider ensemble");
  freeze->add_option("--config", reference->config, "reduced or released")->capture_default_str();
  freeze->add_option("--layout", reference->layout, "the layout that the ensemble ran on")
      ->capture_default_str();
  freeze->add_flag("--check", reference->check, "compare with the recorded bounds instead of writing them");
  freeze->callback([=] { run_reference(*reference); });

  command->callback([=] {
    if (command->get_subcommands().empty()) run_gate(*gate);
  });
}

}  // namespace h3::cli
