// Strips and curves: what they show is what was measured, and every viewer can read them.
#include "harness/generation/pictures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <pugixml.hpp>

#include "conformance/claims.h"
#include "conformance/generation/reduced.h"
#include "harness/generation/stand_in_decoder.h"
#include "model/atomic_file.h"

namespace h3 {
namespace {

// ---- PNG

std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) number = number << 8 | std::uint8_t(bytes[at + i]);
  return number;
}

// What png_of writes, read back: signature, chunks, stored blocks.
Tensor read_png(const std::string& png) {
  EXPECT_EQ(png.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(png.substr(png.size() - 8), "IEND\xae\x42\x60\x82") << "the check sum of an end that has no data";
  const std::int64_t width = number_at(png, 16), height = number_at(png, 20);
  const std::size_t size = number_at(png, 33);
  EXPECT_EQ(png.substr(37, 4), "IDAT");
  const std::string stream = png.substr(41, size);
  std::string bytes;
  std::size_t at = 2;
  for (bool last = false; !last;) {
    last = stream[at] == 1;
    const std::size_t block = std::uint8_t(stream[at + 1]) | std::size_t(std::uint8_t(stream[at + 2])) << 8;
    EXPECT_EQ(block ^ 0xffff, std::uint8_t(stream[at + 3]) | std::size_t(std::uint8_t(stream[at + 4])) << 8);
    bytes += stream.substr(at + 5, block);
    at += 5 + block;
  }
  EXPECT_EQ(at + 4, stream.size());
  Tensor image(DType::fp32, {height, width, 3});
  EXPECT_EQ(std::int64_t(bytes.size()), height * (1 + width * 3));
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t i = 0; i < width * 3; ++i)
      image.data<float>()[y * width * 3 + i] =
          float(std::uint8_t(bytes[std::size_t(y * (1 + width * 3) + 1 + i)])) / 255;
  return image;
}

struct ImageRow {
  const char* name;
  std::int64_t height, width;
};
void PrintTo(const ImageRow& row, std::ostream* out) { *out << row.name; }

class Png : public testing::TestWithParam<ImageRow> {};

TEST_P(Png, reads_back_as_the_image) {
  Tensor image(DType::fp32, {GetParam().height, GetParam().width, 3});
  for (std::int64_t i = 0; i < image.elements(); ++i) image.data<float>()[i] = float(i * 37 % 256) / 255;
  EXPECT_TRUE(bitwise_equal(image, read_png(png_of(image))));
}

const ImageRow kImages[] = {{"one_pixel", 1, 1}, {"odd", 7, 13}, {"several_blocks", 150, 200}};
INSTANTIATE_TEST_SUITE_P(generation, Png, testing::ValuesIn(kImages),
                         [](const auto& info) { return info.param.name; });

class Strip : public testing::TestWithParam<const char*> {};

TEST_P(Strip, shows_both_and_their_difference) {
  const GenerationContract contract = read_contract(contract_file(GetParam()));
  const GenerationState state = initial_state(contract, 42, keyframe_latents(contract));
  const Media expected = decode_stand_in(contract, state);
  Media actual{expected.decoder, expected.frames.clone(), expected.sound};
  const std::int64_t height = expected.frames.shape()[1], width = expected.frames.shape()[2];
  const std::int64_t pixel = (4 * height + 3) * width * 3 + 5;  // last frame, row 3
  actual.frames.data<float>()[pixel] += 0.0625f;
  const Tensor strip = frame_strip(expected, actual, 3);  // frames 0, 2, 4
  ASSERT_EQ(strip.shape(), (Shape{3 * height, 3 * width, 3}));
  const auto at = [&](std::int64_t part, std::int64_t column, std::int64_t row, std::int64_t i) {
    return strip.at(((part * height + row) * 3 + column) * width * 3 + i);
  };
  EXPECT_EQ(at(0, 2, 3, 5), expected.frames.at(pixel));
  EXPECT_EQ(at(1, 2, 3, 5), actual.frames.at(pixel));
  EXPECT_NEAR(at(2, 2, 3, 5), 0.75, 1e-6) << "grey, and half of eight times 1/16";
  EXPECT_EQ(at(2, 2, 3, 6), 0.5f);
  EXPECT_EQ(at(0, 1, 0, 0), expected.frames.at(2 * height * width * 3));
}

INSTANTIATE_TEST_SUITE_P(generation, Strip, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

// ---- SVG

struct CurveRow {
  const char* name;
  std::vector<Curve> curves;
  bool logarithmic;
  std::size_t dots;
  const char* shows;
};
void PrintTo(const CurveRow& row, std::ostream* out) { *out << row.name; }

class Svg : public testing::TestWithParam<CurveRow> {};

TEST_P(Svg, shows_every_finite_value) {
  const std::string svg = svg_of("a < b & c", "step", GetParam().curves, GetParam().logarithmic);
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(svg.c_str()));
  EXPECT_EQ(document.select_nodes("//circle").size(), GetParam().dots);
  EXPECT_EQ(document.select_node("//text").node().text().get(), std::string("a < b & c"));
  EXPECT_NE(svg.find(GetParam().shows), std::string::npos) << svg;
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("style="), std::string::npos) << "a CI server may not show it";
  EXPECT_EQ(svg.find("script"), std::string::npos);
}

const double kInfinite = std::numeric_limits<double>::infinity();
const CurveRow kCurves[] = {
    {"bound", {{"PSNR", {40, 35, 50}, 30}}, false, 3, "bound 30"},
    {"infinite_values", {{"PSNR", {40, kInfinite, NAN}, NAN}}, false, 1, ">40<"},
    {"nothing_finite", {{"PSNR", {kInfinite, kInfinite}, 30}}, false, 0, "the same everywhere"},
    {"logarithmic", {{"a", {0, 1e-8, 1e-3}, NAN}, {"b", {1e-2}, NAN}}, true, 3, ">1e-08<"},
    {"one_value_everywhere", {{"a", {2, 2, 2}, NAN}}, false, 3, ">2<"},
};
INSTANTIATE_TEST_SUITE_P(generation, Svg, testing::ValuesIn(kCurves),
                         [](const auto& info) { return info.param.name; });

// ---- the command

class MediaCommand : public testing::TestWithParam<const char*> {
 protected:
  const Scratch scratch;
  const GenerationContract contract = parse_contract(short_contract_text(3), "short");

  std::string run(const char* name, std::uint64_t seed, float error) const {
    const RunIdentity identity = run_identity(contract, seed, "cpu");
    begin_run(scratch.path(name), contract, identity, "build");
    continue_run(scratch.path(name), identity, "build", [&](const Values& inputs) {
      Values velocity = evaluate_reduced(inputs);
      for (float& value : velocity.at("video_output").values<float>()) value += error;
      return velocity;
    });
    return scratch.path(name);
  }
};

TEST_P(MediaCommand, judges_by_the_contracts_bounds) {
  const std::string expected = run("expected", 42, 0), same = run("same", 42, 0), off = run("off", 42, 0.5f);
  const Ended accepted = run_h3(scratch, {"media", expected, same});
  EXPECT_EQ(accepted.end.exit_code, 0) << accepted.output;
  EXPECT_NE(accepted.output.find(kStandInDecoder), std::string::npos) << accepted.output;
  const Ended refused =
      run_h3(scratch, {"media", expected, off, "--json", "--pictures", scratch.path("pictures")});
  EXPECT_EQ(refused.end.exit_code, 1) << refused.output;
  const auto report = nlohmann::json::parse(refused.output);
  EXPECT_FALSE(report["metrics"]["psnr_db"]["accepted"].get<bool>());
  EXPECT_EQ(report["decoder"], kStandInDecoder);
  EXPECT_EQ(report["psnr_db_of_frame"].size(), 5u);
  for (const char* picture : {"frames.png", "frames.svg", "steps.svg"})
    EXPECT_GT(gate::read_file(scratch.path("pictures") + "/" + picture).size(), 1000u) << picture;
}

TEST_P(MediaCommand, compares_only_what_began_alike) {
  const std::string expected = run("expected", 42, 0), other = run("other", 43, 0);
  const Ended refused = run_h3(scratch, {"media", expected, other});
  EXPECT_EQ(refused.end.exit_code, 2);
  EXPECT_NE(refused.output.find("seed 43"), std::string::npos) << refused.output;
}

INSTANTIATE_TEST_SUITE_P(generation, MediaCommand, testing::Values("reduced"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
