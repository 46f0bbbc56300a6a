// Two trajectories of one contract and seed: how far apart step by step, and what that does to picture and
// sound.
#include "harness/generation/pictures.h"
#include "harness/page/sections.h"

namespace h3::page {
namespace {

double number(const Json& value) {  // "inf": the same bytes have no noise at all
  return value.is_number() ? value.get<double>() : kNone;
}

Markup drift(const Json& json, std::size_t source, std::vector<File>& files) {
  constexpr const char* kKinds[] = {"video_velocity", "audio_velocity", "video_rows", "audio_rows"};
  const Json& first = json.at("first");
  const bool same = first.is_null();
  Table table{.caption = "Relative L2 distance after each evaluation", .columns = {"evaluation"}};
  std::vector<Curve> curves;
  for (const char* kind : kKinds) {
    std::string name = kind;
    for (char& c : name) c = c == '_' ? ' ' : c;
    table.columns.push_back(name);
    curves.push_back({name, {}, kNone});
  }
  for (std::size_t i = 0; i < json.at("relative_l2").size(); ++i) {
    const Json& step = json["relative_l2"][i];
    Markup line = head(std::to_string(step.at("evaluation").get<std::int64_t>()));
    for (std::size_t k = 0; k < curves.size(); ++k) {
      curves[k].values.push_back(number(step.at(kKinds[k])));
      line << number_cell(kKinds[k], scientific(curves[k].values.back()));
    }
    table.rows << row(fmt::format("{}/relative_l2/{}", source, i), line);
  }
  const std::string title = "Distance after each evaluation";
  const std::string found =
      same ? "first_drift: none"
           : fmt::format("first_drift: evaluation {}, {} of {}: {}",
                         first.at("evaluation").get<std::int64_t>(), first.at("kind").get<std::string>(),
                         first.at("modality").get<std::string>(), first.at("where").get<std::string>());
  Markup code = element("h3", "Trajectory") + element("p", {{"class", "note"}}, verdict(same, found));
  if (!same)
    code << element("figure", picture(files, fmt::format("steps-{}", source), title, [&](const Style& style) {
                      return svg_of(title, "evaluation", curves, true, style);
                    }));
  return code + details("the numbers", table.code());
}

Markup media(const Json& json, std::size_t source) {
  Table table{.caption = "Pictures and sound, decoded by: " + json.at("decoder").get<std::string>(),
              .columns = {"metric", "measured", "bound", "verdict"}};
  for (const auto& [name, metric] : json.at("metrics").items()) {
    const bool accepted = metric.at("accepted");
    const Json& measured = metric.at("measured");
    table.rows << row(
        fmt::format("{}/metrics/{}", source, name),
        head(name) +
            (measured.is_number() ? number_cell("measured", fmt::format("{:.4g}", number(measured)))
                                  : cell("∞", "n")) +
            number_cell("bound", fmt::format("{:g}", number(metric.at("bound")))) +
            element("td", verdict(accepted, accepted ? "accepted" : "refused")));
  }
  return element("h3", "Pictures and sound") + table.code();
}

}  // namespace

Markup generation_section(const Run& run, std::vector<File>& files) {
  Markup code;
  for (const std::size_t i : run.inputs.of("h3.trajectory_drift.v1"))
    code << reading(run.inputs.sources[i], [&](const Json& json) { return drift(json, i, files); });
  for (const std::size_t i : run.inputs.of("h3.media_comparison.v1"))
    code << reading(run.inputs.sources[i], [&](const Json& json) { return media(json, i); });
  return section("generation", "Generation", "Two trajectories of one contract and one seed.", code);
}

}  // namespace h3::page
