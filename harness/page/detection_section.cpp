// What the gates would have caught: floors, controls, summation orders, false alarms (h3 power --json).
#include "harness/page/sections.h"
#include "harness/power/power_picture.h"

namespace h3::page {
namespace {

double number(const Json& value) { return value.is_null() ? kNone : value.get<double>(); }

TensorFloors floors_of(const Json& json) {
  TensorFloors tensor;
  tensor.name = json.at("tensor");
  tensor.backward = json.at("pass") == "backward";
  tensor.provider_bytes = json.at("provider_bytes");
  for (const auto& [fault, floor] : json.at("floors").items())
    tensor.floors.push_back({fault, number(floor.at("typical")), number(floor.at("worst")), floor.at("parts"),
                             floor.at("blind")});
  return tensor;
}

Markup floors(const Json& json, std::size_t source, std::vector<File>& files) {
  constexpr const char* kFaults[] = {"random",        "scaling", "shift",    "zeros",
                                     "rows_permuted", "one_row", "one_head", "one_modality"};
  std::vector<TensorFloors> tensors;
  Table table{.caption =
                  "Smallest rejected fault, as a fraction of what is spoiled (of rows, heads and modalities "
                  "the worst)",
              .columns = {"tensor"}};
  for (const char* fault : kFaults) {
    std::string name = fault;
    for (char& c : name) c = c == '_' ? ' ' : c;
    table.columns.push_back(name);
  }
  table.columns.push_back("bits");
  for (std::size_t i = 0; i < json.at("tensors").size(); ++i) {
    const Json& one = json["tensors"][i];
    tensors.push_back(floors_of(one));
    Markup line = head((tensors.back().backward ? "d " : "") + tensors.back().name);
    for (const char* fault : kFaults) {
      const Json floor = one.at("floors").value(fault, Json());
      if (floor.is_null())
        line << cell("–", "n");
      else
        line << number_cell((std::string(fault) + "/worst").c_str(), scientific(number(floor.at("worst"))));
    }
    table.rows << row(fmt::format("{}/tensors/{}/floors", source, i),
                      line + cell(tensors.back().provider_bytes ? "one bit" : "–"));
  }
  const auto spots = json.at("blind_spots").size();
  const std::string title = "Detection floors";
  return element("h3", title) +
         element("p", {{"class", "note"}},
                 words(fmt::format("{} tensors; ", tensors.size())) +
                     verdict(spots == 0, spots == 0 ? "no blind spot of a whole tensor"
                                                    : fmt::format("{} blind spots", spots))) +
         element("figure", picture(files, "floors", title,
                                   [&](const Style& style) { return to_svg(tensors, title, style); })) +
         details("the numbers", table.code());
}

Markup controls(const Json& json, std::size_t source) {
  Table table{.caption = "Deliberate faults, each beside its unperturbed twin",
              .columns = {"control", "class", "first at", "distance to the twin", "golden's bound", "found"},
              .kind = "searchable"};
  std::int64_t run = 0, detected = 0, held = 0;
  for (std::size_t i = 0; i < json.at("controls").size(); ++i) {
    const Json& one = json["controls"][i];
    const Json& expected = one.at("expected");
    Markup line = head(one.at("name").get<std::string>()) + cell(expected.at("class").get<std::string>()) +
                  cell(expected.at("where").get<std::string>());
    if (one.contains("held_by")) {
      ++held;
      line << cell("–", "n") << cell("–") << cell("held by " + one["held_by"].get<std::string>(), "muted");
    } else {
      const double distance = number(one.at("relative_l2_to_twin"));
      const bool found = one.at("detected");
      ++run, detected += found;
      const Json& beyond = one.at("beyond_golden_bound");
      line << (one["relative_l2_to_twin"].is_null()
                   ? cell("–", "n")
                   : number_cell("relative_l2_to_twin", scientific(distance)))
           << cell(beyond.is_null()     ? "–"
                   : beyond.get<bool>() ? "sees it"
                                        : "blind")
           << element("td", verdict(found, found ? "as expected"
                                                 : "not as expected: " +
                                                       one.at("found").at("detail").get<std::string>()));
    }
    table.rows << row(fmt::format("{}/controls/{}", source, i), line);
  }
  return element("h3", "Controls") +
         element("p", {{"class", "note"}},
                 verdict(detected == run,
                         fmt::format("{} of {} found in their class at their node", detected, run)) +
                     words(fmt::format("; {} more are held by cases of the gates", held))) +
         details("every control", table.code());
}

Markup orders(const Json& json, std::size_t source) {
  Table table{.caption = "The order of every sum, found from outside",
              .columns = {"node", "sum", "terms", "order found", "digest", "as declared"}};
  std::size_t declared = 0, count = json.at("reductions").size();
  for (std::size_t i = 0; i < count; ++i) {
    const Json& one = json["reductions"][i];
    const bool as_declared = one.at("as_declared");
    declared += as_declared;
    table.rows << row(
        fmt::format("{}/reductions/{}", source, i),
        head(one.at("node").get<std::string>()) + cell(one.at("sum").get<std::string>()) +
            number_cell("terms", grouped(one.at("terms"))) + cell(one.at("found").get<std::string>()) +
            element("td", element("code", one.at("digest").get<std::string>())) +
            element("td",
                    verdict(as_declared,
                            as_declared ? "yes" : "declared: " + one.at("declared").get<std::string>())));
  }
  return element("h3", "Orders of summation") +
         element("p", {{"class", "note"}},
                 verdict(declared == count, fmt::format("{} of {} as declared", declared, count))) +
         details("every sum", table.code());
}

Markup alarms(const Json& json, std::size_t source) {
  Table table{.caption = "How often an honest run of a narrow block 0 would be refused",
              .columns = {"honest run", "repeats", "alarms", "rate (95 %)", "worst used", "tensor"}};
  for (std::size_t i = 0; i < json.at("variants").size(); ++i) {
    const Json& one = json["variants"][i];
    table.rows << row(fmt::format("{}/variants/{}", source, i),
                      head(one.at("variant").get<std::string>()) +
                          number_cell("repeats", grouped(one.at("repeats"))) +
                          number_cell("alarms", grouped(one.at("alarms"))) +
                          cell(fmt::format("< {:.2f} %", 100 * number(one.at("upper_rate_95"))), "n") +
                          number_cell("worst_used", fmt::format("{:.2f}", number(one.at("worst_used")))) +
                          cell(one.at("worst").get<std::string>()));
  }
  return element("h3", "False alarms") + table.code();
}

}  // namespace

Markup detection_section(const Run& run, std::vector<File>& files) {
  Markup code;
  const auto each = [&](const char* schema, const auto& show) {
    for (const std::size_t i : run.inputs.of(schema))
      code << reading(run.inputs.sources[i], [&](const Json& json) { return show(json, i); });
  };
  each("h3.power.floors.v1", [&](const Json& json, std::size_t i) { return floors(json, i, files); });
  each("h3.power.controls.v1", controls);
  each("h3.power.orders.v1", orders);
  each("h3.power.alarms.v1", alarms);
  return section("detection", "What it would have caught", "A bound is worth what it rejects.", code);
}

}  // namespace h3::page
