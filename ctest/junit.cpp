#include "ctest/junit.h"

#include <algorithm>

#include "model/error.h"
#include "model/text.h"

namespace h3::gate {
namespace {

constexpr std::size_t kMostProperties = 10;

std::string escaped(const std::string& text) {
  std::string xml;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        xml += "&amp;";
        break;
      case '<':
        xml += "&lt;";
        break;
      case '>':
        xml += "&gt;";
        break;
      case '"':
        xml += "&quot;";
        break;
      default:
        xml += c;
    }
  }
  return xml;
}

// An attribute is one line: readers normalise newlines in it anyway.
std::string attribute(const char* name, std::string value) {
  std::ranges::replace(value, '\n', ' ');
  std::ranges::replace(value, '\t', ' ');
  return fmt::format(" {}=\"{}\"", name, escaped(value));
}

// host/RmsNorm.matches_golden/B0_03 is name matches_golden/B0_03 of class h3.host.RmsNorm.
std::pair<std::string, std::string> class_and_name(const std::string& gate, const std::string& full) {
  const std::string inside = full.starts_with(gate + "/") ? full.substr(gate.size() + 1) : full;
  const std::size_t dot = inside.find('.');
  if (dot == std::string::npos) return {"h3." + gate, inside};
  return {"h3." + gate + "." + inside.substr(0, dot), inside.substr(dot + 1)};
}

std::string relative(const std::string& file) {
  return file.starts_with("/") ? file.substr(file.rfind('/') + 1) : file;
}

std::string outcome_element(const char* element, const std::string& type, const std::string& message,
                            const std::string& text) {
  return fmt::format("      <{0}{1}{2}>{3}</{0}>\n", element, attribute("message", message),
                     attribute("type", type), escaped(text));
}

std::string xml_of(const std::string& gate, const CaseVerdict& one) {
  const auto [class_name, name] = class_and_name(gate, one.name);
  std::string xml = "    <testcase" + attribute("classname", class_name) + attribute("name", name);
  if (!one.file.empty())
    xml += attribute("file", relative(one.file)) + attribute("line", std::to_string(one.line));
  xml += attribute("time", fmt::format("{:.3f}", one.seconds)) + ">\n";
  if (!one.properties.empty()) {
    xml += "      <properties>\n";
    for (std::size_t i = 0; i < std::min(one.properties.size(), kMostProperties); ++i)
      xml += "        <property" + attribute("name", one.properties[i].first) +
             attribute("value", one.properties[i].second) + "/>\n";
    xml += "      </properties>\n";
  }
  if (one.outcome == Outcome::failed) xml += outcome_element("failure", one.type, one.message, one.text);
  if (one.outcome == Outcome::not_run) xml += outcome_element("error", one.type, one.message, one.text);
  return xml + "    </testcase>\n";
}

}  // namespace

std::string junit_xml(const Verdict& verdict) {
  std::size_t failures = 0, errors = verdict.problems.size();
  std::string cases;
  for (const CaseVerdict& one : verdict.cases) {
    cases += xml_of(verdict.gate, one);
    failures += one.outcome == Outcome::failed;
    errors += one.outcome == Outcome::not_run;
  }
  for (const auto& [name, text] : verdict.problems) {
    cases += "    <testcase" + attribute("classname", "h3." + verdict.gate + ".run") +
             attribute("name", name) + attribute("time", "0.000") + ">\n" +
             outcome_element("error", "gate", text, text) + "    </testcase>\n";
  }
  const std::string counts =
      attribute("tests", std::to_string(verdict.cases.size() + verdict.problems.size())) +
      attribute("failures", std::to_string(failures)) + attribute("errors", std::to_string(errors)) +
      attribute("skipped", "0") + attribute("time", fmt::format("{:.3f}", verdict.seconds));
  const std::string name = attribute("name", "h3." + verdict.gate);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + name + counts + ">\n  <testsuite" +
         name + counts + attribute("timestamp", verdict.started) + attribute("hostname", "node") + ">\n" +
         cases + "  </testsuite>\n</testsuites>\n";
}

}  // namespace h3::gate
