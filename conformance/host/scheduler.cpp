// Schedules: every sigma, timestep and Euler coefficient bitwise as the provider's scheduler.
#include "model/scheduler.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "conformance/errors.h"
#include "fixtures/hdf5.h"
#include "fixtures/path.h"

namespace h3 {
namespace {

const Hdf5Reader& recorded() {
  static const Hdf5Reader file(fixture_path("layouts.h5"));
  return file;
}

testing::AssertionResult same_bits(std::span<const float> expected, std::span<const float> got) {
  if (expected.size() != got.size())
    return testing::AssertionFailure() << got.size() << " values, expected " << expected.size();
  for (std::size_t i = 0; i < got.size(); ++i)
    if (std::bit_cast<std::uint32_t>(expected[i]) != std::bit_cast<std::uint32_t>(got[i]))
      return testing::AssertionFailure() << "value " << i << " is " << fmt::format("{}", got[i])
                                         << ", expected " << fmt::format("{}", expected[i]);
  return testing::AssertionSuccess();
}

// ---- against the provider
// --------------------------------------------------------------------------------------

struct Modality {
  const char* name;
  double shift;
};
void PrintTo(const Modality& m, std::ostream* out) { *out << m.name << " shift " << m.shift; }

struct Scheduler : testing::TestWithParam<Modality> {};

TEST_P(Scheduler, grids_match_provider_fixture) {
  const std::string group = std::string("schedules/") + GetParam().name;
  const auto sigmas = recorded().read_vector<float>(group + "/sigmas");
  const auto timesteps = recorded().read_vector<float>(group + "/timesteps");
  ASSERT_EQ(recorded().double_attribute(group, "shift"), GetParam().shift);
  const std::int64_t first = recorded().int_attribute(group, "first_grid_points");
  const std::int64_t last = recorded().int_attribute(group, "last_grid_points");
  ASSERT_EQ(first, 2);
  ASSERT_EQ(last, 200);
  std::size_t sigma = 0, timestep = 0;
  for (std::int64_t points = first; points <= last; ++points) {
    const Schedule schedule = make_schedule(points, GetParam().shift);
    ASSERT_EQ(schedule.evaluations(), points - 1);  // the final 0 counts as a grid point
    ASSERT_LE(sigma + std::size_t(points), sigmas.size());
    EXPECT_TRUE(same_bits({&sigmas[sigma], std::size_t(points)}, schedule.sigmas))
        << points << " grid points";
    EXPECT_TRUE(same_bits({&timesteps[timestep], std::size_t(points) - 1}, schedule.timesteps))
        << points << " grid points";
    sigma += std::size_t(points);
    timestep += std::size_t(points) - 1;
  }
  EXPECT_EQ(sigma, sigmas.size());
}

// The provider's step() takes the noise level from the timestep and the ratio from the grid. Only with both
// coefficients right does the whole trajectory come out bit for bit.
TEST_P(Scheduler, euler_coefficients_reproduce_the_provider_trajectory) {
  const std::string group = std::string("schedules/") + GetParam().name;
  const Tensor samples = recorded().read(group + "/trajectory_samples", DType::fp32, {50, 16});
  const Tensor velocities = recorded().read(group + "/trajectory_velocities", DType::fp32, {49, 16});
  const Schedule schedule = make_schedule(kDefaultGridPoints, GetParam().shift);
  const float* velocity = velocities.data<float>();
  std::vector<float> x(samples.data<float>(), samples.data<float>() + 16);
  int grid_would_differ = 0;
  for (std::int64_t i = 0; i < schedule.evaluations(); ++i) {
    const EulerCoefficients step = schedule.euler(i);
    grid_would_differ += step.noise_level != schedule.sigmas[std::size_t(i)];
    for (auto& value : x) {
      const float moved = step.noise_level * *velocity++;
      const float x0 = value + moved;
      const float kept = step.ratio * value, pulled = (1.0f - step.ratio) * x0;
      value = kept + pulled;
    }
    ASSERT_TRUE(same_bits({samples.data<float>() + 16 * (i + 1), 16}, x)) << "evaluation " << i;
  }
  EXPECT_GT(grid_would_differ, 0);  // otherwise the trajectory could not tell the two sources apart
  EXPECT_EQ(schedule.euler(schedule.evaluations() - 1).ratio, 0.0f);
}

TEST_P(Scheduler, timesteps_are_found_by_equality) {
  const Schedule schedule = make_schedule(kDefaultGridPoints, GetParam().shift);
  for (std::int64_t i = 0; i < schedule.evaluations(); ++i)
    EXPECT_EQ(schedule.index_of(schedule.timesteps[std::size_t(i)]), i);
  const float near = std::nextafter(schedule.timesteps[20], 1.0f);
  EXPECT_TRUE(fails_naming([&] { schedule.index_of(near); }, {"not one of its 49 timesteps"}));
}

INSTANTIATE_TEST_SUITE_P(host, Scheduler,
                         testing::Values(Modality{"video", kVideoShift}, Modality{"audio", kAudioShift}),
                         [](const auto& info) { return std::string(info.param.name); });

struct OtherShift : testing::TestWithParam<int> {};

TEST_P(OtherShift, matches_provider_fixture) {
  const std::string group = "schedules/other_" + std::to_string(GetParam());
  const std::int64_t points = recorded().int_attribute(group, "grid_points");
  const Schedule schedule = make_schedule(points, recorded().double_attribute(group, "shift"));
  EXPECT_TRUE(same_bits(recorded().read_vector<float>(group + "/sigmas"), schedule.sigmas));
  if (GetParam() == 5) {
    EXPECT_LT(std::int64_t(schedule.sigmas.size()), points);  // neighbours merged
  }
}

INSTANTIATE_TEST_SUITE_P(host, OtherShift, testing::Range(0, 6),
                         [](const auto& info) { return "recorded_" + std::to_string(info.param); });

// ---- by hand
// ---------------------------------------------------------------------------------------------------

struct Grid {
  const char* name;
  double shift;
  std::vector<float> sigmas;
};
void PrintTo(const Grid& g, std::ostream* out) { *out << g.name; }

struct WorkedGrid : testing::TestWithParam<Grid> {};

TEST_P(WorkedGrid, matches_decimals) {
  const Schedule schedule = make_schedule(std::int64_t(GetParam().sigmas.size()), GetParam().shift);
  EXPECT_TRUE(same_bits(GetParam().sigmas, schedule.sigmas));
}

const Grid kGrids[] = {
    {"video_2", 12, {1, 0}},
    {"video_3", 12, {1, 0.923076928f, 0}},
    {"video_5", 12, {1, 0.972972989f, 0.923076928f, 0.800000012f, 0}},
    {"audio_5", 3, {1, 0.899999976f, 0.75f, 0.5f, 0}},
    {"audio_9",
     3,
     {1, 0.954545438f, 0.899999976f, 0.833333313f, 0.75f, 0.642857134f, 0.5f, 0.300000012f, 0}}};
INSTANTIATE_TEST_SUITE_P(host, WorkedGrid, testing::ValuesIn(kGrids),
                         [](const auto& info) { return std::string(info.param.name); });

// ---- given sigmas
// ----------------------------------------------------------------------------------------------

struct Refusal {
  const char* name;
  void (*action)();
  const char* says;
};
void PrintTo(const Refusal& r, std::ostream* out) { *out << r.name; }

void sigmas(std::initializer_list<double> values) { schedule_from_sigmas(std::vector<double>(values)); }
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct SchedulerInput : testing::TestWithParam<Refusal> {};

TEST_P(SchedulerInput, is_refused) { EXPECT_TRUE(fails_naming(GetParam().action, {GetParam().says})); }

const Refusal kRefusals[] = {
    {"one_point", [] { make_schedule(1, 12); }, "1 grid points, expected at least 2"},
    {"no_points", [] { make_schedule(0, 12); }, "0 grid points"},
    {"negative_points", [] { make_schedule(-5, 12); }, "-5 grid points"},
    {"zero_shift", [] { make_schedule(50, 0); }, "shift 0, expected a positive number"},
    {"negative_shift", [] { make_schedule(50, -3); }, "shift -3"},
    {"nan_shift", [] { make_schedule(50, kNan); }, "shift nan"},
    {"infinite_shift", [] { make_schedule(50, HUGE_VAL); }, "shift inf"},
    {"no_sigmas", [] { sigmas({}); }, "0 sigmas"},
    {"only_the_end", [] { sigmas({0}); }, "1 sigmas"},
    {"terminal_zero_dropped",
     [] {
       sigmas({1, 0.5, 0.1});
     },
     "the last sigma is 0.1, expected 0"},
    {"equal_neighbours",
     [] {
       sigmas({1, 0.5, 0.5, 0});
     },
     "sigma 2 is 0.5 after 0.5"},
    {"equal_in_fp32",
     [] {
       sigmas({1, 0.5 + 1e-12, 0.5, 0});
     },
     "strictly decreasing"},
    {"increasing",
     [] {
       sigmas({0.5, 0.7, 0});
     },
     "sigma 1 is 0.7 after 0.5"},
    {"above_one",
     [] {
       sigmas({1.5, 0.5, 0});
     },
     "sigma 0 is 1.5"},
    {"negative",
     [] {
       sigmas({1, -0.5});
     },
     "sigma 1 is -0.5"},
    {"nan",
     [] {
       sigmas({1, kNan, 0});
     },
     "sigma 1 is nan"},
    {"evaluation_past_the_end", [] { make_schedule(5, 12).euler(4); }, "evaluation 4, expected 0..3"},
    {"evaluation_before_the_start", [] { make_schedule(5, 12).euler(-1); }, "evaluation -1"}};
INSTANTIATE_TEST_SUITE_P(host, SchedulerInput, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string(info.param.name); });

struct GivenSigmas : testing::TestWithParam<const char*> {};

TEST_P(GivenSigmas, are_used_as_they_are) {
  const auto given = recorded().read_vector<double>("schedules/explicit/given");
  const Schedule schedule = schedule_from_sigmas(given);
  EXPECT_TRUE(same_bits(recorded().read_vector<float>("schedules/explicit/sigmas"), schedule.sigmas));
  EXPECT_TRUE(same_bits(recorded().read_vector<float>("schedules/explicit/timesteps"), schedule.timesteps));
}

INSTANTIATE_TEST_SUITE_P(host, GivenSigmas, testing::Values("six_sigmas"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace h3
