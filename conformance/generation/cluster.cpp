// The job script of a cluster, without one: it asks for its receipt, takes the seed of its place in the
// array, and goes on with what an earlier task has left.
#include <gtest/gtest.h>

#include <csignal>

#include "conformance/generation/reduced.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class JobScript {
 public:
  const Scratch scratch;
  const std::string out = scratch.path("out"), receipt = scratch.path("receipt.json");

  Json closed() const {
    return {{"gate", "fullmodel"},
            {"verdict", "closed"},
            {"config", "reduced"},
            {"weights", "synthetic, seed 420"}};
  }
  Ended run(const std::string& task, gate::Command command = {}) const {
    command.arguments = {"env",
                         "-u",
                         "SLURM_SUBMIT_DIR",
                         "-u",
                         "SLURM_JOB_ID",
                         "-u",
                         "H3_BUNDLE",
                         "H3_BUILD_DIR=" + fs::path(h3_program()).parent_path().string(),
                         "CONTRACT=reduced",
                         "ENGINE=cpu",
                         "SLURM_ARRAY_TASK_ID=" + task,
                         "bash",
                         data_root() / "ctest/slurm/generate.sbatch",
                         out,
                         receipt};
    command.output_file = scratch.path("output");
    command.time_limit = 300;
    const gate::ProcessEnd end = gate::run_to_end(command);
    return {end, gate::read_file(command.output_file)};
  }
};

struct ReceiptRow {
  const char* name;
  void (*change)(Json& receipt);  // null: there is none
  const char* says;
};
void PrintTo(const ReceiptRow& row, std::ostream* out) { *out << row.name; }

class JobReceipt : public testing::TestWithParam<ReceiptRow> {};

TEST_P(JobReceipt, is_asked_for_before_anything_begins) {
  const JobScript job;
  if (GetParam().change) {
    Json receipt = job.closed();
    GetParam().change(receipt);
    write_file(job.receipt, receipt.dump());
  }
  const Ended refused = job.run("0");
  EXPECT_EQ(refused.end.exit_code, 2);
  EXPECT_NE(refused.output.find(GetParam().says), std::string::npos) << refused.output;
  EXPECT_FALSE(fs::exists(job.out));
}

const ReceiptRow kReceipts[] = {
    {"none", nullptr, "no receipt of gate fullmodel"},
    {"of_another_gate", [](Json& r) { r["gate"] = "block0"; }, "not the receipt of a closed gate fullmodel"},
    {"not_closed", [](Json& r) { r["verdict"] = "not closed"; },
     "not the receipt of a closed gate fullmodel"},
    {"of_another_model", [](Json& r) { r["config"] = "released"; }, "of config released"},
    {"of_other_weights", [](Json& r) { r["weights"] = "synthetic, seed 7"; }, "weights synthetic, seed 7"},
};
INSTANTIATE_TEST_SUITE_P(generation, JobReceipt, testing::ValuesIn(kReceipts),
                         [](const auto& info) { return info.param.name; });

class JobTask : public testing::TestWithParam<const char*> {};

TEST_P(JobTask, goes_on_with_its_seed_until_it_is_sealed) {
  const JobScript job;
  write_file(job.receipt, job.closed().dump());
  const std::string folder = job.out + "/seed_43";  // place 1 of 42, 43, 44
  gate::Command preempted;
  preempted.kill_when = [&] { return saved_steps(folder) > 9; };
  EXPECT_EQ(job.run("1", preempted).end.signal, SIGKILL);
  EXPECT_FALSE(fs::exists(trajectory_of_run(folder)));
  const Ended finished = job.run("1");
  EXPECT_EQ(finished.end.exit_code, 0) << finished.output;
  EXPECT_NE(finished.output.find("chain and seal as recorded"), std::string::npos) << finished.output;
  EXPECT_EQ(Trajectory(trajectory_of_run(folder)).identity().seed, 43u);
  EXPECT_NE(job.run("3").end.exit_code, 0) << "the contract has three seeds";
}

INSTANTIATE_TEST_SUITE_P(generation, JobTask, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
