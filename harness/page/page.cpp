#include "harness/page/page.h"

#include <openssl/evp.h>

#include <algorithm>

#include "harness/page/sections.h"

namespace h3::page {
namespace {

// The files style.css and interactive.js beside this one, as they were when this was built.
constexpr std::string_view kStyle =
#include "page/style.css.inc"
    ;
constexpr std::string_view kScript =
#include "page/interactive.js.inc"
    ;

std::string base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()), int(bytes.size()));
  text.resize(std::size_t(size));
  return text;
}

std::string sha256_base64(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  require(::EVP_Digest(bytes.data(), bytes.size(), digest, &size, ::EVP_sha256(), nullptr) == 1,
          "page: no SHA-256");
  return base64({reinterpret_cast<const char*>(digest), size});
}

struct Entry {
  const char *id, *title;
  Markup code;
};

Markup navigation(const std::vector<Entry>& entries) {
  Markup items;
  for (const Entry& one : entries)
    items << element("li", element("a", {{"href", std::string("#") + one.id}}, one.title));
  return element("nav", {{"aria-label", "Sections"}}, element("ul", items));
}

Markup body_of(const Run& run, const Run* against, std::vector<File>& files) {
  std::vector<Entry> entries = {
      {"against", "Against", against ? comparison_section(run, *against) : Markup()},
      {"drift", "Drift", drift_section(run)},
      {"bounds", "Bounds", bounds_section(run)},
      {"depth", "Depth", depth_section(run, files)},
      {"rounding", "Rounding", rounding_section(run, files)},
      {"detection", "Detection", detection_section(run, files)},
      {"repeat", "Repeat", repeat_section(run)},
      {"generation", "Generation", generation_section(run, files)},
      {"cases", "Cases", cases_section(run)},
      {"sources", "Sources", sources_section(run)}};
  std::erase_if(entries, [](const Entry& one) { return one.code.empty(); });
  Markup sections;
  for (const Entry& one : entries) sections << one.code;
  return element("a", {{"class", "skip"}, {"href", "#main"}}, "To the content") + verdict_section(run) +
         navigation(entries) + element("main", {{"id", "main"}}, sections);
}

std::string title_of(const Run& run) {
  std::string title = run.closed() ? "Closed" : "Not closed";
  if (run.inputs.gates.empty())
    title = run.reports.empty() ? "Measured" : run.closed() ? "Accepted" : "Not accepted";
  return title + " – MiniMax-H3 conformance";
}

std::string document(const Run& run, const Markup& head, const Markup& body) {
  const Markup whole =
      element("head", element("meta", {{"charset", "utf-8"}}) +
                          element("meta", {{"name", "viewport"},
                                           {"content", "width=device-width, initial-scale=1"}}) +
                          element("meta", {{"name", "color-scheme"}, {"content", "light dark"}}) +
                          element("title", title_of(run)) + head) +
      element("body", body);
  return "<!DOCTYPE html>\n" + element("html", {{"lang", "en"}}, whole).code + "\n";
}

// src and srcset of our pictures become the pictures themselves.
void take_in(std::string& html, const std::vector<File>& files) {
  for (const File& file : files)
    for (const char* attribute : {"src", "srcset"}) {
      const std::string name = fmt::format(" {}=\"{}\"", attribute, file.name);
      if (const std::size_t at = html.find(name); at != std::string::npos)
        html.replace(at, name.size(),
                     fmt::format(" {}=\"data:image/svg+xml;base64,{}\"", attribute, base64(file.bytes)));
    }
}

}  // namespace

std::vector<File> static_page(const Run& run, const Run* against) {
  std::vector<File> files;
  const Markup body = body_of(run, against, files);
  files.push_back({"style.css", std::string(kStyle)});
  // The page last: whoever sees it, sees its pictures.
  files.push_back(
      {"index.html", document(run, element("link", {{"rel", "stylesheet"}, {"href", "style.css"}}), body)});
  std::size_t bytes = 0;
  for (const File& file : files) bytes += file.bytes.size();
  require(bytes <= kMostPageBytes, "page: {} bytes, at most {} were expected: name fewer reports", bytes,
          kMostPageBytes);
  return files;
}

File one_file(const Run& run, const Run* against) {
  std::vector<File> pictures;
  const Markup body = body_of(run, against, pictures);
  const Markup head =
      element(
          "meta",
          {{"http-equiv", "Content-Security-Policy"},
           {"content",
            fmt::format("default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'",
                        sha256_base64(kStyle), sha256_base64(kScript))}}) +
      element("style", Markup{std::string(kStyle)});
  std::string html = document(run, head, body + element("script", Markup{std::string(kScript)}));
  take_in(html, pictures);
  require(html.size() <= kMostPageBytes,
          "page: {} bytes in one file, at most {} were expected: name fewer reports", html.size(),
          kMostPageBytes);
  return {"", std::move(html)};
}

}  // namespace h3::page
