// h3 parallel: a block on several ranks, held byte for byte against one rank.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "harness/cli/commands.h"
#include "harness/parallel/exchange_nccl.h"
#include "harness/parallel/parallel_report.h"
#include "model/atomic_file.h"
#include "model/json.h"
#include "model/named_configs.h"
#include "model/temporary_folder.h"

namespace h3::cli {
namespace {

struct Options {
  ParallelRequest request;
  bool forward = false, processes = false, nccl = false, bytes = false;
  double limit = 120;  // seconds that an exchange may take
  int rank = -1;
  std::string folder, fault;
};

TimeLimit milliseconds(double seconds) { return TimeLimit(std::int64_t(1000 * seconds)); }

std::string report_file(const std::string& folder, int rank) {
  return fmt::format("{}/report.{}.json", folder, rank);
}

constexpr const char* kFaults[] = {"hang", "lost-row", "wrong-owner", "metadata"};

// Controls, planted in the last rank of a run whose ranks are processes.
RankFaults planted(const Options& options) {
  if (options.fault == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  RankFaults faults;
  faults.declared = [fault = options.fault](Holding& holding) {
    if (fault == "lost-row") holding.items["rows"].pop_back();
    if (fault == "wrong-owner") holding.items["heads"].insert(holding.items["heads"].begin(), 0);
    if (fault == "metadata") holding.items["adaln_indices"].insert(holding.items["adaln_indices"].begin(), 0);
  };
  return faults;
}

// One rank of a run whose ranks are processes.
void run_as_rank(const Options& options) {
  MeetingPlace place(options.folder, options.request.ranks, milliseconds(options.limit));
  std::unique_ptr<NcclExchange> nccl = options.nccl ? nccl_exchange(options.rank, place) : nullptr;
  std::unique_ptr<Exchange> files = nccl ? nullptr : file_exchange(options.rank, place);
  Exchange& exchange = nccl ? static_cast<Exchange&>(*nccl) : *files;
  const OneRank one(options.request);
  const bool last = options.rank == options.request.ranks - 1;
  const RankFaults faults = last && !options.fault.empty() ? planted(options) : RankFaults{};
  const Plan plan = plan_named(options.request.plan, one.graph, options.request.ranks);
  const RankReport report = run_rank(options.request, one, plan, exchange, faults);
  nlohmann::json json = to_json(report);
  if (nccl) {
    json["nccl"] = nccl->version();
    json["reduce_scatter_seconds"] =
        nccl->seconds_of_reduce_scatter(one.layout.rows() * one.config.hidden_size);
  }
  write_file(report_file(options.folder, options.rank), json.dump());
}

struct Ended {
  std::vector<RankReport> reports;
  std::string how, reduce_scatter;
};

Ended run_as_processes(const Options& options) {
  const ParallelRequest& request = options.request;
  if (options.nccl)
    if (const std::string why = why_no_nccl(request.ranks); !why.empty()) fail("{}", why);
  const TemporaryFolder folder("h3_ranks");
  MeetingPlace::create(folder.path(), request.ranks);
  MeetingPlace place(folder.path(), request.ranks, milliseconds(options.limit));
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "parallel",
                                      "--folder",
                                      folder.path(),
                                      "--config",
                                      request.config,
                                      "--layout",
                                      request.layout,
                                      "--engine",
                                      request.engine,
                                      "--plan",
                                      request.plan,
                                      "--ranks",
                                      std::to_string(request.ranks),
                                      "--seed",
                                      std::to_string(request.seed),
                                      "--time-limit",
                                      fmt::format("{}", options.limit)};
  if (options.forward) command.push_back("--forward");
  if (options.nccl) command.push_back("--nccl");
  if (!options.fault.empty()) command.insert(command.end(), {"--fault", options.fault});
  // A rank names who is late by itself; the launcher ends those that cannot.
  const std::vector<int> codes = launch_ranks(command, place, milliseconds(20 * options.limit));
  Ended ended{{}, options.nccl ? "one process and GPU each" : "one process each, files", ""};
  for (int rank = 0; rank < request.ranks; ++rank) {
    const int code = codes[std::size_t(rank)];
    require(code == 0, "rank {} ended with {} {}", rank, code < 0 ? "signal" : "exit code", std::abs(code));
    const nlohmann::json json = read_json(report_file(folder.path(), rank));
    ended.reports.push_back(rank_report_of(json));
    if (options.nccl && rank == 0) {
      ended.how += fmt::format(", NCCL {}", json.at("nccl").get<std::string>());
      ended.reduce_scatter = fmt::format("reduce-scatter of (S, {}) bf16, which adds: {:.3f} ms\n",
                                         config_named(request.config).hidden_size,
                                         1e3 * json.at("reduce_scatter_seconds").get<double>());
    }
  }
  return ended;
}

}  // namespace

void add_parallel(CLI::App& app) {
  auto* command =
      app.add_subcommand("parallel", "A transformer block on several ranks: the bytes of one rank");
  command->footer(R"(Examples:
  h3 parallel --config narrow --ranks 7                a reduced block, seven logical ranks of this process
  h3 parallel --ranks 4 --plan sequence --engine cuda  the real width, on one GPU
  h3 parallel --config narrow --ranks 3 --processes    a process for each rank, on any machine
  h3 parallel --ranks 2 --nccl                         a process and a GPU for each rank, through NCCL
  h3 parallel --config narrow --ranks 4 --bytes        bytes received for each node beside the usual way
Exit: 0 every byte is that of one rank, 1 some are not, 2 bad input or a rank that failed.)");
  auto options = std::make_shared<Options>();
  ParallelRequest& request = options->request;
  command->add_option("--config", request.config, "released, reduced or narrow")->capture_default_str();
  command->add_option("--layout", request.layout, "tiny, small, medium or 768p-124f")->capture_default_str();
  command->add_option("--engine", request.engine, "cpu, or cuda on a Hopper GPU; --nccl implies cuda")
      ->capture_default_str();
  command->add_option("--plan", request.plan, "tensor, sequence or context")->capture_default_str();
  command->add_option("--ranks", request.ranks, "any number; with --nccl, 0: one for every GPU")
      ->capture_default_str();
  command->add_option("--seed", request.seed, "seed of synthetic weights and inputs")->capture_default_str();
  command->add_flag("--forward", options->forward, "leave out the backward");
  command->add_flag("--processes", options->processes, "a process for each rank, parts through files");
  command->add_flag("--nccl", options->nccl, "a process and a GPU for each rank, parts through NCCL");
  command->add_flag("--bytes", options->bytes, "print the bytes received for each node");
  command->add_option("--time-limit", options->limit, "seconds that one exchange may take")
      ->capture_default_str();
  command->add_option("--rank", options->rank, "this process is that rank (used by the launcher)");
  command->add_option("--folder", options->folder, "where the ranks meet (used by the launcher)");
  command->add_option("--fault", options->fault,
                      "control, in the last of several processes: hang, lost-row, wrong-owner or metadata");
  command->callback([options] {
    ParallelRequest& request = options->request;
    request.backward = !options->forward;
    if (options->nccl) request.engine = "cuda";
    if (options->nccl && request.ranks == 0) request.ranks = gpu_count();
    require(request.ranks >= 1, "--ranks {}: expected at least 1", request.ranks);
    require(options->fault.empty() || std::ranges::count(kFaults, options->fault) > 0,
            "--fault {}: expected {}", options->fault, fmt::join(kFaults, ", "));
    require(options->fault.empty() || options->processes || options->nccl || options->rank >= 0,
            "--fault: expected with --processes or --nccl");
    require(options->limit > 0, "--time-limit {}: expected more than 0 seconds", options->limit);
    if (options->rank >= 0) {
      require(options->rank < request.ranks && !options->folder.empty(),
              "--rank {}: expected 0..{} and --folder", options->rank, request.ranks - 1);
      return run_as_rank(*options);
    }
    Ended ended;
    if (options->nccl || options->processes) {
      ended = run_as_processes(*options);
    } else {
      const OneRank one(request);
      ended = {run_logical_ranks(request, one, plan_named(request.plan, one.graph, request.ranks)),
               "logical, one process", ""};
    }
    std::fputs(to_table(request, ended.how, ended.reports).c_str(), stdout);
    if (options->bytes)
      std::fputs(("\n" + traffic_table(request, ended.reports) + ended.reduce_scatter).c_str(), stdout);
    if (first_drift(ended.reports)) throw CheckFailed();
  });
}

}  // namespace h3::cli
