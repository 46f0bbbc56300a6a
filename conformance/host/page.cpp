// h3 page: what it shows is what its sources say, nothing in it can run or reach out, and names stay names.
#include "harness/page/page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <ostream>
#include <pugixml.hpp>
#include <regex>

#include "conformance/errors.h"
#include "conformance/scratch.h"
#include "ctest/child.h"
#include "ctest/files.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kHostile =
    "</td><script>alert(1)</script><img src=x onerror=\"alert('2')\"/> & \x1b[31m \xff";

// ---- sources, as gates and commands write them

struct Case {
  std::string name, outcome = "passed";
};

void write_gate(const std::string& folder, const std::vector<Case>& cases,
                const std::string& verdict = "closed") {
  fs::create_directories(folder);
  std::string required;
  std::int64_t passed = 0;
  {
    LedgerWriter ledger(folder + "/ledger.jsonl");
    ledger.append({{"event", "run_begin"}, {"filter", "some/*"}, {"selected", cases.size()}});
    for (const Case& one : cases) {
      ledger.append({{"event", "case_begin"}, {"case", one.name}, {"file", "some.cpp"}, {"line", 7}});
      if (one.outcome == "failed")
        ledger.append({{"event", "part"},
                       {"case", one.name},
                       {"kind", "failure"},
                       {"file", "some.cpp"},
                       {"line", 8},
                       {"text", kHostile}});
      ledger.append({{"event", "case_end"},
                     {"case", one.name},
                     {"outcome", one.outcome},
                     {"seconds", 0.25},
                     {"properties",
                      {{"metric", "relative_l2"}, {"limit", "0.00125"}, {"measured", "0.000987654321"}}}});
      passed += one.outcome == "passed";
      required += one.name + "\n";
    }
    ledger.append({{"event", "run_end"}, {"exit_code", 0}});
    ledger.append({{"event", "process_end"},
                   {"gate", "some"},
                   {"exit_code", 0},
                   {"seconds", 12.5},
                   {"started", "2026-11-30T10:11:10"}});
  }
  write_file(folder + "/required.txt", required);
  const Json receipt = {{"gate", "some"},
                        {"verdict", verdict},
                        {"required", cases.size()},
                        {"ran", cases.size()},
                        {"passed", passed},
                        {"failed", std::int64_t(cases.size()) - passed},
                        {"skipped", 0},
                        {"missing", 0},
                        {"unlisted", 0},
                        {"ledger_root", read_ledger(folder + "/ledger.jsonl").root},
                        {"environment", {{"cpu", "a CPU"}, {"gpus", Json::array()}}},
                        {"git", {{"commit", "7c21a3676c5f7a1b3aeaed5cfe173ad170d3a497"}, {"clean", true}}}};
  write_file(folder + "/receipt.json", receipt.dump());
}

Json distance(double error, double bound) {
  return {{"relative_l2", error}, {"bound", bound},   {"max_abs", 0.5},
          {"max_abs_index", 3},   {"accepted", true}, {"reason", ""}};
}

Json replay(const std::string& name = "tiny") {
  const Json nothing = {{"checked", true}, {"first", nullptr}};
  Json json = {
      {"schema", "h3.replay.v1"},
      {"graph", "transformer_blocks.0"},
      {"layout", {{"name", name}, {"rows", 264}, {"sha256", "00"}}},
      {"engine", "cpu"},
      {"chain_isa", "avx2"},
      {"weights", "synthetic, seed 420"},
      {"provider", {{"recorded", true}, {"environment", "diffusers on a GPU"}}},
      {"drift", {{"first_drift", nothing}, {"first_repeat_drift", nothing}, {"first_batch_drift", nothing}}},
      {"accepted", true},
      {"backward", nullptr}};
  for (const char* node : {"norm1", "q_proj", "residual_mlp"})
    json["nodes"].push_back({{"node", node},
                             {"xxh3_128", "17039b4573b0b6cb17039b4573b0b6cb"},
                             {"golden", distance(1.941234e-3, 3.426789e-3)},
                             {"provider", {{"equal", true}, {"isolated", true}}},
                             {"repeat_drift", nullptr},
                             {"batch_drift", nullptr}});
  return json;
}

// Nine rounded as the provider's, of which `moved` are one step further here.
Json rounded(int moved) {
  const auto side = [](int first) {
    return Json{{"finite", 900000},
                {"share_correctly_rounded", first / 900000.0},
                {"histogram", {{"0", first}, {"1", 899990 - first}, {"5-8", 10}}},
                {"worst", {{"ulp", 7}, {"row", 3}, {"element", 5}}}};
  };
  return {{"rows", 9}, {"elements", 900000}, {"candidate", side(810000 - moved)}, {"provider", side(810000)}};
}

Json replay_beside_provider(int moved) {
  Json json = replay();
  for (Json& node : json["nodes"]) node["ulp"] = rounded(0);
  json["nodes"][1]["ulp"] = rounded(moved);
  json["nodes"][2]["ulp"] = nullptr;
  const Json nothing = {{"checked", true}, {"first", nullptr}};
  json["backward"] = {{"drift", {{"first_grad_repeat_drift", nothing}, {"first_grad_batch_drift", nothing}}},
                      {"nodes", Json::array()}};
  json["backward"]["gradients"].push_back({{"value", "transformer_blocks.0.attn.to_q.weight"},
                                           {"node", "q_proj"},
                                           {"xxh3_128", "aa"},
                                           {"golden", distance(1.941234e-3, 3.426789e-2)},
                                           {"provider", {{"repeats", true}, {"verdict", {{"equal", true}}}}},
                                           {"ulp", rounded(moved)}});
  return json;
}

Json full_model() {
  Json json = {{"schema", "h3.full_model.v2"},
               {"config", "released"},
               {"layout", {{"name", "small"}, {"rows", 925}}},
               {"engine", "cuda"},
               {"chain_isa", "NVIDIA H200"},
               {"weights", "synthetic, seed 420"},
               {"bounds", {{"provider", "diffusers on a GPU"}, {"inventory", Json::object()}}},
               {"missing", Json::array()},
               {"drift", {{"first_forward_drift", nullptr}, {"first_backward_drift", nullptr}}},
               {"verdict", "closed"}};
  const auto add = [&](const char* pass, const std::string& name, double chained_bound) {
    json["tensors"].push_back({{"pass", pass},
                               {"name", name},
                               {"xxh3_128", "aa"},
                               {"provider_xxh3_128", ""},
                               {"chained", distance(1.231234e-2, chained_bound)},
                               {"isolated", distance(5.678912e-3, 1.234567e-2)},
                               {"accepted", true},
                               {"reason", ""}});
  };
  add("forward", "timestep_mlp", 0.02);
  for (int block = 0; block < 50; ++block) {
    add("forward", fmt::format("transformer_blocks.{}.residual_mlp", block), 0.02);
    for (const char* parameter : {"attn.to_q.weight", "norm1.weight", "residual_mlp"})
      add("backward", fmt::format("transformer_blocks.{}.{}", block, parameter), block < 47 ? 1.2 : 0.02);
  }
  return json;
}

Json ulp() {
  return {{"schema", "h3.ulp.v1"},
          {"row", "swiglu"},
          {"dtype", "bf16"},
          {"engine", "cpu"},
          {"inputs", "every gate"},
          {"finite", 1000000},
          {"share_correctly_rounded", 0.99},
          {"histogram", {{"0", 990000}, {"1", 9990}, {"3-4", 10}}},
          {"worst", {{"ulp", 4}, {"index", 9}, {"inputs", "x = 3"}, {"expected", "1"}, {"got", "2"}}}};
}

Json power() {
  Json json;
  json["controls"] = {{"schema", "h3.power.controls.v1"}, {"all_detected", true}};
  json["controls"]["controls"].push_back(
      {{"name", "rope_width_wrong"},
       {"expected", {{"class", "formula"}, {"where", "rope_q"}}},
       {"found", {{"class", "formula"}, {"where", "rope_q"}, {"detail", ""}}},
       {"relative_l2_to_twin", 0.123456},
       {"beyond_golden_bound", true},
       {"detected", true}});
  json["floors"] = {{"schema", "h3.power.floors.v1"}, {"blind_spots", Json::array()}};
  json["floors"]["tensors"].push_back(
      {{"tensor", "norm1"},
       {"pass", "forward"},
       {"provider_bytes", true},
       {"floors", {{"random", {{"typical", 4.5e-3}, {"worst", 4.567e-3}, {"parts", 1}, {"blind", 0}}}}}});
  return json;
}

Json trajectory() {
  Json json = {
      {"schema", "h3.trajectory_drift.v1"},
      {"first", {{"evaluation", 1}, {"kind", "velocity"}, {"modality", "video"}, {"where", "1 of 9"}}}};
  for (int step = 0; step < 3; ++step)
    json["relative_l2"].push_back({{"evaluation", step},
                                   {"video_velocity", 1e-3 * step},
                                   {"audio_velocity", 0.0},
                                   {"video_rows", 2e-4 * step},
                                   {"audio_rows", 0.0}});
  return json;
}

Json media() {
  return {{"schema", "h3.media_comparison.v1"},
          {"decoder", "stand-in"},
          {"metrics",
           {{"psnr_db", {{"measured", "inf"}, {"bound", 30}, {"accepted", true}}},
            {"ssim", {{"measured", 0.98765}, {"bound", 0.95}, {"accepted", true}}}}}};
}

Json diagnosis() {
  return {{"schema", "h3.diagnosis.v1"},
          {"graph", "transformer_blocks.0"},
          {"layout", "tiny"},
          {"rows", 264},
          {"engine", "cpu"},
          {"nodes",
           {{{"node", "norm1"},
             {"error", 3.385e-3},
             {"input_error", 0.0},
             {"worst_input", nullptr},
             {"growth", nullptr},
             {"rms", 1.11},
             {"absmax", 81.5}}}},
          {"attention",
           {{"heads",
             {{{"head", 0}, {"largest_logit", 12.5}, {"mean_entropy", 4.25}, {"min_entropy", 0.125}}}}}}};
}

class Sources {
 public:
  std::string add(const std::string& name, const Json& json) {
    write_file(scratch_.path(name), json.dump(-1, ' ', false, Json::error_handler_t::replace));
    paths_.push_back(scratch_.path(name));
    return paths_.back();
  }
  std::string gate(const std::string& name, const std::vector<Case>& cases,
                   const std::string& verdict = "closed") {
    write_gate(scratch_.path(name), cases, verdict);
    paths_.push_back(scratch_.path(name));
    return paths_.back();
  }
  page::Run run() const { return page::Run(paths_); }
  std::string folder() const { return scratch_.folder(); }
  std::string path(const std::string& name) const { return scratch_.path(name); }

 private:
  Scratch scratch_;
  std::vector<std::string> paths_;
};

const page::File& index_of(const std::vector<page::File>& files) {
  return *std::ranges::find(files, "index.html", &page::File::name);
}

void load(pugi::xml_document& document, const std::string& text, const std::string& name) {
  const auto parsed = document.load_string(text.c_str(), pugi::parse_default | pugi::parse_doctype);
  ASSERT_TRUE(parsed) << name << ": " << parsed.description() << " at byte " << parsed.offset;
}

void walk(const pugi::xml_node& node, const std::function<void(const pugi::xml_node&)>& visit) {
  visit(node);
  for (const pugi::xml_node child : node.children()) walk(child, visit);
}

// ---- what any page is

struct PageRow {
  const char* name;
  void (*fill)(Sources& sources);
};
void PrintTo(const PageRow& row, std::ostream* out) { *out << row.name; }
std::string page_name(const testing::TestParamInfo<PageRow>& info) { return info.param.name; }

struct Page : testing::TestWithParam<PageRow> {
  void SetUp() override { GetParam().fill(sources); }
  Sources sources;
};

TEST_P(Page, holds_no_script_no_inline_style_and_no_address) {
  const auto run = sources.run();
  for (const page::File& file : page::static_page(run, &run)) {
    EXPECT_EQ(file.bytes.find("://"),
              file.name.ends_with(".svg") ? file.bytes.find("://www.w3.org/2000/svg") : std::string::npos)
        << file.name;
    EXPECT_EQ(file.bytes.find("url("), std::string::npos) << file.name;
    EXPECT_EQ(file.bytes.find("@import"), std::string::npos) << file.name;
    if (file.name.ends_with(".css")) continue;
    pugi::xml_document document;
    load(document, file.bytes, file.name);
    walk(document, [&](const pugi::xml_node& node) {
      EXPECT_NE(std::string(node.name()), "script") << file.name;
      EXPECT_NE(std::string(node.name()), "style") << file.name;
      for (const pugi::xml_attribute one : node.attributes()) {
        EXPECT_NE(std::string(one.name()), "style") << file.name;
        EXPECT_FALSE(std::string(one.name()).starts_with("on")) << file.name << ": " << one.name();
      }
    });
  }
}

TEST_P(Page, lets_only_its_own_script_run_in_the_interactive_file) {
  const page::File file = page::one_file(sources.run(), nullptr);
  std::size_t scripts = 0;
  for (std::size_t at = 0; (at = file.bytes.find("<script", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 1u);
  EXPECT_TRUE(std::regex_search(
      file.bytes, std::regex("default-src 'none'; img-src data:; style-src 'sha256-[A-Za-z0-9+/]{43}='; "
                             "script-src 'sha256-[A-Za-z0-9+/]{43}='")));
  EXPECT_EQ(file.bytes.find("innerHTML"), std::string::npos);
  EXPECT_EQ(file.bytes.find("src=\"ulp"), std::string::npos) << "every picture is inside";
}

TEST_P(Page, names_its_pictures_and_tables) {
  const auto files = page::static_page(sources.run(), nullptr);
  pugi::xml_document document;
  load(document, index_of(files).bytes, "index.html");
  walk(document, [&](const pugi::xml_node& node) {
    const std::string name = node.name();
    EXPECT_TRUE(name != "table" || *node.child("caption").text().get());
    EXPECT_TRUE(name != "img" || *node.attribute("alt").value());
    for (const char* attribute : {"src", "srcset"}) {
      const std::string wanted = node.attribute(attribute).value();
      EXPECT_EQ(std::ranges::count(files, wanted, &page::File::name), wanted.empty() ? 0 : 1) << wanted;
    }
  });
  for (const page::File& file : files) {
    if (!file.name.ends_with(".svg")) continue;
    pugi::xml_document picture;
    load(picture, file.bytes, file.name);
    EXPECT_FALSE(std::string(picture.child("svg").child("title").text().get()).empty()) << file.name;
    EXPECT_FALSE(std::string(picture.child("svg").attribute("viewBox").value()).empty()) << file.name;
  }
}

TEST_P(Page, is_the_same_for_the_same_sources_and_names_no_folder) {
  const auto once = page::static_page(sources.run(), nullptr),
             again = page::static_page(sources.run(), nullptr);
  ASSERT_EQ(once.size(), again.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    EXPECT_EQ(once[i].bytes, again[i].bytes) << once[i].name;
    EXPECT_EQ(once[i].bytes.find(sources.folder()), std::string::npos) << once[i].name;
  }
}

// Every number with an address is that number of the source, to the last digit shown.
TEST_P(Page, shows_the_numbers_of_its_sources) {
  const auto run = sources.run();
  pugi::xml_document document;
  load(document, index_of(page::static_page(run, nullptr)).bytes, "index.html");
  int numbers = 0;
  const auto source_at = [&](const std::string& path) {
    const std::size_t slash = path.find('/');
    const auto& json = run.inputs.sources.at(std::size_t(std::stoi(path.substr(0, slash)))).json;
    return json.at(nlohmann::json::json_pointer(path.substr(slash)));
  };
  walk(document, [&](const pugi::xml_node& node) {
    if (const pugi::xml_attribute used = node.attribute("data-used")) {
      const auto of = source_at(used.value());
      const double share = 100 * of.at("relative_l2").get<double>() / of.at("bound").get<double>();
      const std::string shown = node.text().get();
      ++numbers;
      if (shown == "b") {
        EXPECT_GE(of.at("bound").get<double>(), 1);
      } else {
        EXPECT_NEAR(std::stod(shown), share, 0.5001) << used.value();
      }
    }
    const pugi::xml_attribute at = node.attribute("data-at");
    if (!at) return;
    pugi::xml_node row = node;
    while (row && !row.attribute("data-from")) row = row.parent();
    ASSERT_TRUE(row) << at.value();
    const auto value = source_at(std::string(row.attribute("data-from").value()) + "/" + at.value());
    std::string shown = node.text().get();
    std::erase(shown, ',');
    ++numbers;
    if (value.is_string() && value.get<std::string>().starts_with(shown)) return;  // a digest
    const double expected = value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>();
    const std::size_t dot = shown.find('.'), exponent = shown.find('e');
    const double digits = dot == std::string::npos ? 0 : double(std::min(exponent, shown.size()) - dot - 1);
    const double scale = exponent == std::string::npos ? 0 : std::stod(shown.substr(exponent + 1));
    EXPECT_NEAR(std::stod(shown), expected, 0.5001 * std::pow(10, scale - digits))
        << row.attribute("data-from").value() << " " << at.value();
  });
  EXPECT_GT(numbers, 3);
}

const PageRow kPages[] = {
    {"of_every_kind",
     [](Sources& sources) {
       sources.gate("some",
                    {{"some/Norm.repeats/tiny"}, {"some/Norm.repeats/small"}, {"some/Rope.repeats/tiny"}});
       sources.add("replay.json", replay());
       sources.add("beside.json", replay_beside_provider(1000));
       sources.add("full.json", full_model());
       sources.add("ulp.json", ulp());
       sources.add("power.json", power());
       sources.add("drift.json", trajectory());
       sources.add("media.json", media());
       sources.add("diagnosis.json", diagnosis());
     }},
    {"of_a_failed_gate",
     [](Sources& sources) {
       sources.gate("some", {{"some/Norm.repeats/tiny", "failed"}, {"some/Norm.repeats/small"}},
                    "not closed");
     }},
    {"of_hostile_names",
     [](Sources& sources) {
       sources.gate("some", {{std::string("some/") + "Norm." + kHostile, "failed"}}, "not closed");
       Json report = replay(kHostile);
       report["engine"] = report["weights"] = report["provider"]["environment"] = kHostile;
       report["nodes"][0]["node"] = kHostile;
       report["nodes"][0]["ulp"] = rounded(1);
       report["nodes"][0]["ulp"]["provider"]["histogram"]["9-<script>"] = 1;
       sources.add("report.json", report);
       Json row = ulp();
       row["row"] = row["inputs"] = "<svg onload=alert(1)>";
       row["histogram"]["9-<script>"] = 1;
       sources.add("row.json", row);
     }},
};
INSTANTIATE_TEST_SUITE_P(host, Page, testing::ValuesIn(kPages), page_name);

// ---- the verdict

struct PageVerdictRow {
  const char* name;
  void (*fill)(Sources& sources);
  const char* title;
  const char* says;
};
void PrintTo(const PageVerdictRow& row, std::ostream* out) { *out << row.name; }

struct PageVerdict : testing::TestWithParam<PageVerdictRow> {};

TEST_P(PageVerdict, is_that_of_the_ledger_and_the_reports) {
  Sources sources;
  GetParam().fill(sources);
  const std::string html = index_of(page::static_page(sources.run(), nullptr)).bytes;
  EXPECT_NE(html.find(fmt::format("<title>{} –", GetParam().title)), std::string::npos);
  EXPECT_NE(html.find(GetParam().says), std::string::npos);
}

const std::vector<Case> kTwo = {{"some/Norm.repeats/tiny"}, {"some/Norm.repeats/small"}};
const PageVerdictRow kVerdicts[] = {
    {"closed", [](Sources& s) { s.gate("some", kTwo), s.add("r.json", replay()); }, "Closed",
     "1 of 1 gates closed · 2 of 2 required cases ran and passed · 1 of 1 reports accepted"},
    {"failed_case",
     [](Sources& s) {
       s.gate("some", {kTwo[0], {kTwo[1].name, "failed"}}, "not closed");
     },
     "Not closed", "1 of 2 required cases ran and passed"},
    {"forged_receipt",
     [](Sources& s) {
       s.gate("some", {kTwo[0], {kTwo[1].name, "failed"}}, "closed");
     },
     "Not closed", "receipt.json: verdict is &quot;closed&quot;, the ledger says &quot;not closed&quot;"},
    {"no_receipt", [](Sources& s) { fs::remove(s.gate("some", kTwo) + "/receipt.json"); }, "Not closed",
     "there is no receipt"},
    {"changed_ledger",
     [](Sources& s) {
       const std::string path = s.gate("some", kTwo) + "/ledger.jsonl";
       std::string text = gate::read_file(path);
       text.replace(text.find("0.25"), 4, "0.20");
       write_file(path, text);
     },
     "Not closed", "line 4"},
    {"refused_report",
     [](Sources& s) {
       Json report = replay();
       report["accepted"] = false;
       s.gate("some", kTwo), s.add("r.json", report);
     },
     "Not closed", "0 of 1 reports accepted"},
    {"report_alone", [](Sources& s) { s.add("r.json", replay()); }, "Accepted",
     "3 of 3 with the provider's bytes"},
    {"measurement_alone", [](Sources& s) { s.add("u.json", ulp()); }, "Measured", "Rounding"},
};
INSTANTIATE_TEST_SUITE_P(host, PageVerdict, testing::ValuesIn(kVerdicts),
                         [](const auto& info) { return info.param.name; });

// ---- candidate and provider side by side

struct PageBesideRow {
  const char* name;
  int moved;
};
void PrintTo(const PageBesideRow& row, std::ostream* out) { *out << row.name; }

struct PageBeside : testing::TestWithParam<PageBesideRow> {};

// Heights of a side's bars, bin after bin.
std::vector<std::string> bars(const pugi::xml_node& figure, const char* side) {
  std::vector<std::string> heights;
  for (const pugi::xml_node bar : figure.child("svg").find_child_by_attribute("g", "class", side).children())
    heights.push_back(bar.attribute("height").value());
  return heights;
}

TEST_P(PageBeside, draws_equal_bars_where_the_histograms_are) {
  Sources sources;
  sources.add("r.json", replay_beside_provider(GetParam().moved));
  const std::string html = index_of(page::static_page(sources.run(), nullptr)).bytes;
  pugi::xml_document document;
  load(document, html, "index.html");
  std::vector<std::string> names;
  for (const pugi::xpath_node& one : document.select_nodes("//div[@class='figures small']/figure")) {
    const pugi::xml_node figure = one.node(), caption = figure.child("figcaption");
    names.push_back(caption.child("strong").text().get());
    const bool moved = GetParam().moved && names.back() != "norm1";
    const auto candidate = bars(figure, "candidate"), provider = bars(figure, "provider");
    EXPECT_EQ(candidate.size(), 3u) << names.back();
    EXPECT_EQ(candidate == provider, !moved) << names.back();
    EXPECT_EQ(figure.select_nodes(".//rect[@class='other']").size(), moved ? 2u : 0u) << names.back();
    EXPECT_EQ(std::string(caption.child("span").text().get()), moved ? "provider 90.00 %" : "")
        << names.back();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"norm1", "q_proj", "attn.to_q.weight"}));
  EXPECT_NE(html.find(GetParam().moved ? "1 of 2 nodes are rounded as" : "2 of 2 nodes are rounded as"),
            std::string::npos);
}

const PageBesideRow kBeside[] = {{"the_same", 0}, {"fused", 90000}};
INSTANTIATE_TEST_SUITE_P(host, PageBeside, testing::ValuesIn(kBeside),
                         [](const auto& info) { return info.param.name; });

// ---- its size

struct PageLimit : testing::TestWithParam<int> {};

TEST_P(PageLimit, holds_however_many_cases_there_are) {
  std::vector<Case> cases;
  for (int i = 0; i < GetParam(); ++i)
    cases.push_back({fmt::format("some/Fixture{}.is_as_promised/row_{}", i / 100, i)});
  cases.back().outcome = "failed";
  Sources sources;
  sources.gate("some", cases, "not closed");
  std::size_t bytes = 0;
  const auto files = page::static_page(sources.run(), nullptr);
  for (const page::File& file : files) bytes += file.bytes.size();
  EXPECT_LE(bytes, page::kMostPageBytes);
  const std::string html = index_of(files).bytes;
  EXPECT_NE(html.find("passed cases are not listed"), std::string::npos);
  EXPECT_NE(html.find(fmt::format("is_as_promised row_{}<", GetParam() - 1)), std::string::npos)
      << "what failed is listed";
}

// All gates of engine cuda on a machine without a GPU.
TEST_P(PageLimit, says_once_why_nothing_ran) {
  std::vector<Case> cases;
  for (int i = 0; i < GetParam(); ++i)
    cases.push_back({fmt::format("some/Fixture{}.is_as_promised/row_{}", i / 100, i), "skipped"});
  Sources sources;
  sources.gate("some", cases, "not closed");
  std::size_t bytes = 0;
  const auto files = page::static_page(sources.run(), nullptr);
  for (const page::File& file : files) bytes += file.bytes.size();
  EXPECT_LE(bytes, page::kMostPageBytes / 2);
  const std::string html = index_of(files).bytes;
  EXPECT_NE(html.find("all 100 cases<"), std::string::npos);
  EXPECT_EQ(html.find("is_as_promised row_7<"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(host, PageLimit, testing::Values(12000),
                         [](const auto& info) { return fmt::format("cases_{}", info.param); });

// ---- two runs

struct PageComparisonRow {
  const char* name;
  void (*change)(Sources& other);
  const char* says;
};
void PrintTo(const PageComparisonRow& row, std::ostream* out) { *out << row.name; }

struct PageComparison : testing::TestWithParam<PageComparisonRow> {};

TEST_P(PageComparison, names_what_differs) {
  Sources here, there;
  here.gate("some", kTwo), here.add("r.json", replay());
  GetParam().change(there);
  const auto run = here.run(), other = there.run();
  EXPECT_NE(index_of(page::static_page(run, &other)).bytes.find(GetParam().says), std::string::npos);
  EXPECT_EQ(index_of(page::static_page(run, nullptr)).bytes.find(GetParam().says), std::string::npos);
}

const PageComparisonRow kComparisons[] = {
    {"nothing", [](Sources& other) { other.gate("some", kTwo), other.add("r.json", replay()); },
     "3 of 3 tensors have the same bytes. First difference: <span class=\"mark good\">"},
    {"outcome",
     [](Sources& other) {
       other.gate("some", {kTwo[0], {kTwo[1].name, "failed"}}, "not closed");
     },
     "<th scope=\"row\">some/Norm.repeats/small</th><td>passed</td><td>failed</td>"},
    {"bytes",
     [](Sources& other) {
       Json report = replay();
       report["nodes"][1]["xxh3_128"] = "00";
       report["nodes"][1]["golden"]["relative_l2"] = 2 * 1.941234e-3;
       other.add("r.json", report);
     },
     "<th scope=\"row\">0: q_proj</th><td class=\"n\">1.941e-03</td><td class=\"n\">3.882e-03</td><td "
     "class=\"n\">0.500</td>"},
    {"nothing_in_common",
     [](Sources& other) {
       other.add("u.json", ulp());
       other.add("r.json", replay("small"));
     },
     "<td class=\"muted\">absent</td>"},
};
INSTANTIATE_TEST_SUITE_P(host, PageComparison, testing::ValuesIn(kComparisons),
                         [](const auto& info) { return info.param.name; });

// ---- bad input

struct PageRefusalRow {
  const char* name;
  void (*spoil)(const Sources& sources);  // what is named: "input" below the folder
  const char* says;
};
void PrintTo(const PageRefusalRow& row, std::ostream* out) { *out << row.name; }

struct PageRefusal : testing::TestWithParam<PageRefusalRow> {};

TEST_P(PageRefusal, is_one_line_and_leaves_no_page) {
  const Sources sources;
  GetParam().spoil(sources);
  const fs::path h3 = fs::read_symlink("/proc/self/exe").parent_path() / "h3";
  const std::string log = sources.path("log");
  const auto end =
      gate::run_to_end({.arguments = {h3, "page", sources.path("input"), "--out", sources.path("page")},
                        .output_file = log,
                        .time_limit = 60});
  const std::string output = gate::read_file(log);
  EXPECT_EQ(end.exit_code, 2) << output;
  EXPECT_EQ(std::ranges::count(output, '\n'), 1) << output;
  EXPECT_NE(output.find(GetParam().says), std::string::npos) << output;
  EXPECT_FALSE(fs::exists(sources.path("page")));
}

void write_without(const Sources& sources, Json json, const char* key) {
  json.erase(key);
  write_file(sources.path("input"), json.dump());
}

const PageRefusalRow kRefusals[] = {
    {"missing", [](const Sources&) {}, "no such file or folder"},
    {"empty_folder", [](const Sources& s) { fs::create_directories(s.path("input")); },
     "holds neither evidence of a gate"},
    {"no_json", [](const Sources& s) { write_file(s.path("input"), "{\"schema\": "); }, "not valid JSON"},
    {"unknown_schema", [](const Sources& s) { write_file(s.path("input"), "{\"schema\": \"h3.other.v1\"}"); },
     "not a report that a page shows"},
    {"old_schema",
     [](const Sources& s) { write_file(s.path("input"), "{\"schema\": \"h3.full_model.v1\"}"); },
     "not a report that a page shows"},
    {"no_nodes", [](const Sources& s) { write_without(s, replay(), "nodes"); },
     "not a h3.replay.v1: key 'nodes' not found"},
    {"no_tensors", [](const Sources& s) { write_without(s, full_model(), "tensors"); },
     "key 'tensors' not found"},
    {"no_provider",
     [](const Sources& s) {
       Json json = replay_beside_provider(0);
       json["nodes"][0]["ulp"].erase("provider");
       write_file(s.path("input"), json.dump());
     },
     "key 'provider' not found"},
    {"no_histogram", [](const Sources& s) { write_without(s, ulp(), "histogram"); },
     "key 'histogram' not found"},
    {"number_as_text",
     [](const Sources& s) {
       Json json = replay();
       json["nodes"][0]["golden"]["relative_l2"] = "small";
       write_file(s.path("input"), json.dump());
     },
     "type must be number, but is string"},
    {"no_list_of_cases",
     [](const Sources& s) {
       write_gate(s.path("input"), kTwo);
       fs::remove(s.path("input") + "/required.txt");
     },
     "required.txt: no such file"},
    {"empty_ledger",
     [](const Sources& s) {
       write_gate(s.path("input"), kTwo);
       write_file(s.path("input") + "/ledger.jsonl", "");
     },
     "ledger.jsonl"},
};
INSTANTIATE_TEST_SUITE_P(host, PageRefusal, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace h3
