// What the sections of the page have in common.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/page/inputs.h"
#include "harness/page/readings.h"
#include "harness/report/grouped.h"
#include "harness/report/markup.h"
#include "harness/report/svg.h"

namespace h3::page {

struct File {
  std::string name, bytes;
};

// Everything a section reads.
struct Run {
  Inputs inputs;
  std::vector<TensorReport> reports;

  explicit Run(const std::vector<std::string>& paths)
      : inputs(read_inputs(paths)), reports(tensor_reports(inputs)) {}
  bool closed() const;  // every gate closed and every report accepted
};

// ---- numbers, as the page writes them

std::string scientific(double value);  // "1.941e-03"; "n/a" where there is none
std::string percent(double share);     // "52 %"
std::string share_text(double share);  // "97.31 %", "8.5 in 10^6"
std::string seconds(double value);     // "0.25 s"

// A cell whose number stands in a source: `at` is below the data-from of its row (conformance/host/page.cpp
// reads both back).
Markup number_cell(const char* at, const std::string& shown);

// ---- blocks

struct Table {
  std::string caption;
  std::vector<std::string> columns;
  std::string kind = "";  // class
  Markup rows = {};

  Markup code() const;  // in a frame that scrolls by itself where the window is narrow
};
Markup row(const std::string& from, const Markup& cells);
Markup cell(std::string_view text, const char* kind = "");
Markup head(std::string_view text);  // the cell that names its row

Markup details(const std::string& summary, const Markup& inside, bool open = false);

// Empty where there is nothing inside.
Markup section(const char* id, const std::string& title, const std::string& lead, const Markup& inside);

// A word with a sign and a colour: good, bad or neither.
Markup verdict(bool good, std::string_view text);

// How much of a bound an error uses, with the provider's own share as a band: a bar that is as wide as its
// cell.
Markup used_bar(const Distance& distance);
// A part of a whole, likewise.
Markup share_bar(double share);

// A drawing for light and dark, wide and narrow pages: four files, of which a browser loads one.
Markup picture(std::vector<File>& files, const std::string& name, const std::string& alt,
               const std::function<std::string(const Style&)>& draw);

}  // namespace h3::page
