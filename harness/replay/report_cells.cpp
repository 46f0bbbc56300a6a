#include "harness/replay/report_cells.h"

#include <fmt/format.h>

#include <algorithm>

namespace h3::report {

std::string drift_cell(const Paint& paint, const std::optional<Drift>& drift, bool checked,
                       const char* why_not) {
  return checked ? paint(!drift, drift ? drift->to_string() : "none") : why_not;
}

std::string bindings_cell(const Bindings& bindings) {
  const std::string rows = fmt::format("{} of {} row", bindings.row, bindings.nodes);
  return bindings.candidate == 0 ? rows : fmt::format("{}, {} candidate", rows, bindings.candidate);
}

std::string error_cells(const std::optional<GoldenError>& error) {
  return fmt::format("{:>11} {:>11} {:>10}", error ? fmt::format("{:.3e}", error->relative_l2) : "-",
                     error && error->bound ? fmt::format("{:.3e}", *error->bound) : "-",
                     error ? fmt::format("{:.2e}", error->max_abs) : "-");
}

std::string provider_cell(const ProviderVerdict& verdict, std::int64_t rows) {
  if (verdict.equal) return "= provider";
  return fmt::format("{} of {} rows differ, {} of {} sampled elements", verdict.rows_differing, rows,
                     verdict.elements_differing, verdict.sampled_elements);
}

std::string ulp_cell(const std::vector<std::pair<std::string, const SampledUlp*>>& by_name) {
  const auto differs = [](const auto& one) { return !one.second->equal(); };
  std::string text =
      fmt::format("as the provider's in {} of {}",
                  by_name.size() - std::size_t(std::ranges::count_if(by_name, differs)), by_name.size());
  if (const auto first = std::ranges::find_if(by_name, differs); first != by_name.end()) {
    const UlpHistogram &candidate = first->second->candidate, &provider = first->second->provider;
    text += fmt::format(", not in {}: {:.2f} % correctly rounded (provider {:.2f} %), worst {} ({})",
                        first->first, 100 * candidate.share_correctly_rounded(),
                        100 * provider.share_correctly_rounded(), candidate.worst, provider.worst);
  }
  return text;
}

Json json_of(const Bindings& bindings) {
  return {{"row", bindings.row}, {"candidate", bindings.candidate}, {"nodes", bindings.nodes}};
}

Json json_of(const std::optional<Drift>& drift) {
  if (!drift) return nullptr;
  return {{"node", drift->node},
          {"row", drift->row},
          {"head", drift->head},
          {"element", drift->element},
          {"detail", drift->detail}};
}

Json json_of(const std::optional<GoldenError>& error) {
  if (!error) return nullptr;
  return {{"relative_l2", number(error->relative_l2)},
          {"max_abs", number(error->max_abs)},
          {"max_abs_index", error->max_abs_index},
          {"bound", error->bound ? number(*error->bound) : Json()},
          {"accepted", error->accepted},
          {"reason", error->reason}};
}

Json json_of(const ProviderVerdict& verdict) {
  return {{"equal", verdict.equal},
          {"rows_differing", verdict.rows_differing},
          {"sampled_elements", verdict.sampled_elements},
          {"elements_differing", verdict.elements_differing},
          {"first", json_of(verdict.first)}};
}

Json json_of(const std::optional<SampledUlp>& ulp) {
  if (!ulp) return nullptr;
  const auto side = [&](const UlpHistogram& found) {
    Json json = to_json(found);
    json["worst"] = nullptr;
    if (const std::int64_t at = found.worst_index; at >= 0)
      json["worst"] = {
          {"ulp", found.worst}, {"row", ulp->rows[std::size_t(at / ulp->cols)]}, {"element", at % ulp->cols}};
    return json;
  };
  return {{"rows", ulp->rows.size()},
          {"elements", ulp->provider.elements},
          {"candidate", side(ulp->candidate)},
          {"provider", side(ulp->provider)}};
}

}  // namespace h3::report
