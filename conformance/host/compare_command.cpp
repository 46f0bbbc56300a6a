// h3 compare: what a person runs to find out where two replays, or two recordings, part.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <vector>

#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "fixtures/hdf5.h"
#include "model/atomic_file.h"
#include "model/json.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Files {
  std::string a() const { return scratch.path("a" + extension); }
  std::string b() const { return scratch.path("b" + extension); }

  std::string extension;
  Scratch scratch = {};
};

struct Answer {
  int exit_code;
  Json json;
  std::string output;
};

Answer compare_command(const Files& files) {
  const fs::path h3 = fs::read_symlink("/proc/self/exe").parent_path() / "h3";
  const std::string log = files.scratch.path("log");
  const auto end = gate::run_to_end(
      {.arguments = {h3, "compare", files.a(), files.b(), "--json"}, .output_file = log, .time_limit = 60});
  const std::string output = gate::read_file(log);
  return {end.exit_code, Json::parse(output, nullptr, false), output};
}

Json report() {
  Json json = {{"schema", "h3.replay.v1"}, {"graph", "transformer_blocks.0"}, {"seed", 7}};
  json["boundaries"] = {{{"name", "timestep_mlp"}, {"shape", {2, 2688}}, {"xxh3_128", "00"}}};
  json["nodes"] = Json::array();
  for (const char* node : {"adaln_projection", "norm1", "q_proj"})
    json["nodes"].push_back({{"node", node}, {"shape", {264, 5376}}, {"xxh3_128", "11"}, {"seconds", 1.5}});
  return json;
}

struct ReportRow {
  const char* name;
  void (*change)(Json& b);
  int exit_code;
  const char* first;  // name of the first differing node, "" for none
};
void PrintTo(const ReportRow& row, std::ostream* out) { *out << row.name; }
std::string report_name(const testing::TestParamInfo<ReportRow>& info) { return info.param.name; }

struct CompareReports : testing::TestWithParam<ReportRow> {};

TEST_P(CompareReports, names_the_first_differing_node) {
  const Files files{".json"};
  Json b = report();
  GetParam().change(b);
  write_file(files.a(), report().dump());
  write_file(files.b(), b.dump());
  const Answer answer = compare_command(files);
  EXPECT_EQ(answer.exit_code, GetParam().exit_code) << answer.output;
  if (answer.exit_code == 2) return;
  EXPECT_EQ(answer.json["equal"], answer.exit_code == 0);
  EXPECT_EQ(answer.json["first_differing"], *GetParam().first ? Json(GetParam().first) : Json());
}

constexpr ReportRow kReports[] = {
    {"equal", [](Json&) {}, 0, ""},
    {"times_do_not_count", [](Json& b) { b["nodes"][0]["seconds"] = 99; }, 0, ""},
    {"one_node", [](Json& b) { b["nodes"][1]["xxh3_128"] = "22"; }, 1, "norm1"},
    {"consequences_come_later", [](Json& b) { b["nodes"][1]["xxh3_128"] = b["nodes"][2]["xxh3_128"] = "22"; },
     1, "norm1"},
    {"boundary_before_nodes",
     [](Json& b) { b["boundaries"][0]["xxh3_128"] = b["nodes"][0]["xxh3_128"] = "22"; }, 1, "timestep_mlp"},
    {"shape",
     [](Json& b) {
       b["nodes"][2]["shape"] = {925, 5376};
     },
     1, "q_proj"},
    {"node_missing", [](Json& b) { b["nodes"].erase(2); }, 1, "q_proj"},
    {"node_added",
     [](Json& b) {
       b["nodes"].push_back({{"node", "k_proj"}, {"xxh3_128", "1"}});
     },
     1, "k_proj"},
    {"nothing_in_common", [](Json& b) { b["nodes"] = b["boundaries"] = Json::array(); }, 1, "timestep_mlp"},
    {"no_report",
     [](Json& b) {
       b = {{"schema", "other"}};
     },
     2, ""},
    {"node_without_digest", [](Json& b) { b["nodes"][0].erase("xxh3_128"); }, 2, ""},
};
INSTANTIATE_TEST_SUITE_P(host, CompareReports, testing::ValuesIn(kReports), report_name);

Tensor ramp(DType dtype) {
  Tensor tensor(DType::fp32, {4, 5});
  for (int i = 0; i < 20; ++i) tensor.data<float>()[i] = float(i);
  return tensor.to(dtype);
}

struct FileRow {
  const char* name;
  void (*write_b)(Hdf5Writer& b);
  int exit_code;
  const char* first;
};
void PrintTo(const FileRow& row, std::ostream* out) { *out << row.name; }
std::string file_name(const testing::TestParamInfo<FileRow>& info) { return info.param.name; }

struct CompareFiles : testing::TestWithParam<FileRow> {};

TEST_P(CompareFiles, names_the_first_differing_dataset) {
  const Files files{".h5"};
  const auto write = [](const std::string& path, void (*content)(Hdf5Writer&)) {
    Hdf5Writer file(path);
    content(file);
    file.close();
  };
  write(files.a(), [](Hdf5Writer& a) {
    a.write("x", ramp(DType::bf16));
    a.write("y/z", ramp(DType::fp32));
    a.write_vector("words", std::vector<std::uint32_t>{1, 2, 3});
  });
  write(files.b(), GetParam().write_b);
  const Answer answer = compare_command(files);
  EXPECT_EQ(answer.exit_code, GetParam().exit_code) << answer.output;
  EXPECT_EQ(answer.json["first_differing"], *GetParam().first ? Json(GetParam().first) : Json())
      << answer.output;
}

constexpr FileRow kFiles[] = {
    {"equal",
     [](Hdf5Writer& b) {
       b.write("x", ramp(DType::bf16));
       b.write("y/z", ramp(DType::fp32));
       b.write_vector("words", std::vector<std::uint32_t>{1, 2, 3});
     },
     0, ""},
    {"one_value",
     [](Hdf5Writer& b) {
       Tensor changed = ramp(DType::fp32);
       changed.data<float>()[7] += 1;
       b.write("x", ramp(DType::bf16));
       b.write("y/z", changed);
       b.write_vector("words", std::vector<std::uint32_t>{1, 2, 3});
     },
     1, "/y/z"},
    {"one_word",
     [](Hdf5Writer& b) {
       b.write("x", ramp(DType::bf16));
       b.write("y/z", ramp(DType::fp32));
       b.write_vector("words", std::vector<std::uint32_t>{1, 2, 4});
     },
     1, "/words"},
    {"type",
     [](Hdf5Writer& b) {
       b.write("x", ramp(DType::fp16));
       b.write("y/z", ramp(DType::fp32));
       b.write_vector("words", std::vector<std::uint32_t>{1, 2, 3});
     },
     1, "/x"},
    {"dataset_missing",
     [](Hdf5Writer& b) {
       b.write("x", ramp(DType::bf16));
       b.write("y/z", ramp(DType::fp32));
     },
     1, "/words"},
    {"nothing_in_common", [](Hdf5Writer& b) { b.write("other", ramp(DType::fp32)); }, 1, "/words"},
};
INSTANTIATE_TEST_SUITE_P(host, CompareFiles, testing::ValuesIn(kFiles), file_name);

}  // namespace
}  // namespace h3
