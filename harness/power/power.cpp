#include "harness/power/power.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

namespace h3 {
namespace {

constexpr int kFinest = 60;  // 2^-60 is below every type's resolution

struct Subject {
  const Bound& bound;
  const Tensor& golden;  // FP64
  DType stored_as;

  Judgement judge_planted(const std::function<void(Tensor&)>& plant) const {
    Tensor candidate = golden.clone();
    plant(candidate);
    return judge(bound, compare(golden, candidate.to(stored_as)));
  }

  // The largest k whose fault of size 2^-k is caught. Larger k are finer, so the first miss ends the search.
  int finest_caught(const std::function<void(Tensor&, double)>& plant) const {
    for (int k = 0; k <= kFinest; ++k)
      if (judge_planted([&](Tensor& t) { plant(t, std::ldexp(1.0, -k)); }).accepted) return k - 1;
    return kFinest;
  }
};

std::int64_t largest_index(const Tensor& golden) {
  const auto values = golden.values<double>();
  return std::ranges::max_element(values, {}, [](double x) { return std::fabs(x); }) - values.begin();
}

std::int64_t typical_index(const Tensor& golden, double rms) {
  const auto values = golden.values<double>();
  return std::ranges::min_element(values, {}, [&](double x) { return std::fabs(std::fabs(x) - rms); }) -
         values.begin();
}

double rms_of(const Tensor& golden) {
  double sum = 0;
  for (const double x : golden.values<double>()) sum += x * x;
  return std::sqrt(sum / double(golden.elements()));
}

// Every row moves up by one, the first becomes the last; a single row is rotated by one column.
void permute_rows(Tensor& tensor) {
  const auto values = tensor.values<double>();
  std::rotate(values.begin(), values.begin() + (tensor.rows() > 1 ? tensor.cols() : 1), values.end());
}

bool permutation_shows(const Tensor& golden, DType stored_as) {
  Tensor permuted = golden.clone();
  permute_rows(permuted);
  return compare(golden.to(stored_as), permuted.to(stored_as)).differing_values > 0;
}

}  // namespace

Power power_of(const Bound& bound, const Tensor& golden_in, DType stored_as) {
  const Tensor golden = golden_in.to(DType::fp64);
  const Subject subject{bound, golden, stored_as};
  const Judgement itself = subject.judge_planted([](Tensor&) {});
  require(itself.accepted, "power: the bound refuses the golden itself, stored as {}: {}", name_of(stored_as),
          itself.reason);

  const double rms = rms_of(golden);
  const std::int64_t largest = largest_index(golden), typical = typical_index(golden, rms);
  Power power;
  const auto plant = [&](const char* name, bool must_be_caught, const std::function<void(Tensor&)>& fault) {
    const Judgement judgement = subject.judge_planted(fault);
    power.faults.push_back({name, !judgement.accepted, judgement.reason});
    require(!must_be_caught || !judgement.accepted, "power: the bound accepts {}: {}", name,
            judgement.reason);
  };
  plant("zeros", true, [](Tensor& t) { std::ranges::fill(t.values<double>(), 0.0); });
  plant("doubled", true, [](Tensor& t) {
    for (double& x : t.values<double>()) x *= 2;
  });
  if (permutation_shows(golden, stored_as)) plant("rows_permuted", true, permute_rows);
  plant("last_row_lost", false,
        [](Tensor& t) { std::ranges::fill(t.values<double>().last(std::size_t(t.cols())), 0.0); });
  plant("largest_element_negated", false, [&](Tensor& t) { t.data<double>()[largest] *= -1; });
  plant("typical_element_negated", false, [&](Tensor& t) { t.data<double>()[typical] *= -1; });
  plant("one_element_huge", false,
        [&](Tensor& t) { t.data<double>()[typical] = 1024 * std::fabs(golden.data<double>()[largest]); });
  power.smallest_scale = subject.finest_caught([](Tensor& t, double step) {
    for (double& x : t.values<double>()) x *= 1 + step;
  });
  power.smallest_shift = subject.finest_caught([&](Tensor& t, double step) {
    for (double& x : t.values<double>()) x += step * rms;
  });
  return power;
}

std::string Power::summary() const {
  const auto size = [](int k, const char* prefix, const char* suffix) {
    return k < 0 ? std::string("none") : fmt::format("{}2^-{}{}", prefix, k, suffix);
  };
  std::string caught, missed;
  for (const PlantedFault& fault : faults) {
    std::string& list = fault.caught ? caught : missed;
    list += (list.empty() ? "" : ", ") + fault.name;
  }
  return fmt::format("smallest scaling caught: {}; smallest shift caught: {}; catches {}; misses {}",
                     size(smallest_scale, "1+", ""), size(smallest_shift, "", " rms"), caught,
                     missed.empty() ? "none of the planted faults" : missed);
}

}  // namespace h3
