#include "ctest/variants.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "ctest/child.h"
#include "ctest/files.h"
#include "model/atomic_file.h"
#include "model/error.h"
#include "model/json.h"

namespace h3::gate {
namespace {

namespace fs = std::filesystem;

std::string cached(const fs::path& build, const std::string& variable) {
  std::ifstream lines(build / "CMakeCache.txt");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(variable + ":")) return line.substr(line.find('=') + 1);
  fail("{}: expected a build folder, its CMakeCache.txt has no {}", build.string(), variable);
}

std::string ask_ninja(const fs::path& build, const char* tool) {
  std::string answer = output_of({ninja_of_build(build), "-C", build, "-t", tool});
  while (answer.starts_with("ninja: ")) answer.erase(0, answer.find('\n') + 1);  // its own remarks
  require(!answer.empty(), "{}: ninja -t {} says nothing; expected a finished Ninja build", build.string(),
          tool);
  return answer;
}

std::set<std::string> words_of(const std::string& command) {
  std::istringstream words(command);
  return {std::istream_iterator<std::string>(words), {}};
}

std::size_t replace_all(std::string& text, const std::string& from, const std::string& to) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size(), ++count)
    text.replace(at, from.size(), to);
  return count;
}

// Errors: `command` does not say `from`.
void replace_in(std::string& command, const std::string& from, const std::string& to) {
  require(replace_all(command, from, to) > 0, "no '{}' in the command: {}", from, command);
}

struct Unit {
  std::string object, source, command;  // the object's path as the commands have it: from the build folder
};

// What a target is linked of.
class Link {
 public:
  Link(const fs::path& build, const std::string& target) {
    const auto edges = nlohmann::json::parse(ask_ninja(build, "compdb"));
    std::map<std::string, const nlohmann::json*> by_output;
    for (const auto& edge : edges) by_output[edge.at("output").get<std::string>()] = &edge;
    require(by_output.contains(target), "{}: builds no {}", build.string(), target);
    command_ = by_output[target]->at("command").get<std::string>();
    direct_ = words_of(command_);
    std::set<std::string> objects = direct_;
    for (const std::string& word : direct_)
      if (word.ends_with(".a") && by_output.contains(word))
        objects.merge(words_of(by_output[word]->at("command").get<std::string>()));
    for (const std::string& object : objects)
      if (object.ends_with(".o") && by_output.contains(object)) {
        const auto& edge = *by_output[object];
        units_[object] = {object, edge.at("file").get<std::string>(), edge.at("command").get<std::string>()};
      }
    read_dependencies(build);
  }

  const std::string& command() const { return command_; }
  bool names(const std::string& object) const { return direct_.contains(object); }
  std::vector<Unit> readers_of(const fs::path& file) const {
    const auto found = readers_.find(file);
    return found == readers_.end() ? std::vector<Unit>{} : found->second;
  }

 private:
  // Lines of "object: #deps ...", and below it the indented paths that its compiler read.
  void read_dependencies(const fs::path& build) {
    std::istringstream lines(ask_ninja(build, "deps"));
    const Unit* unit = nullptr;
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("    ")) {
        const auto found = units_.find(line.substr(0, line.find(": #deps")));
        unit = found == units_.end() ? nullptr : &found->second;
      } else if (unit != nullptr) {
        readers_[(build / line.substr(4)).lexically_normal()].push_back(*unit);
      }
    }
  }

  std::string command_;
  std::set<std::string> direct_;  // words of the link command
  std::map<std::string, Unit> units_;
  std::map<fs::path, std::vector<Unit>> readers_;
};

std::string ninja_path(std::string path) {
  replace_all(path, "$", "$$");
  replace_all(path, " ", "$ ");
  replace_all(path, ":", "$:");
  return path;
}

std::string edge(const fs::path& output, const std::vector<std::string>& inputs, std::string command) {
  std::string line = "build " + ninja_path(output) + ": run";
  for (const std::string& input : inputs) line += " " + ninja_path(input);
  replace_all(command, "$", "$$");
  return line + "\n  do = " + command + "\n";
}

std::string compile_edge(Unit unit, const std::string& tree, const std::string& file,
                         const fs::path& changed_tree, const fs::path& object,
                         const std::string& unchanged_program) {
  std::string& command = unit.command;
  replace_in(command, "-I" + tree + " ", "-I" + changed_tree.string() + " -I" + tree + " ");
  replace_in(command, unit.object, object);  // after -o, and of the list of its headers
  if (unit.source == tree + "/" + file)
    replace_in(command, " -c " + unit.source, " -c " + (changed_tree / file).string());
  // A reader that has found the unchanged file all the same is no variant.
  command += fmt::format(" && grep -qF {} {}.d",
                         (changed_tree.parent_path().filename() / "source" / file).string(), object.string());
  return edge(object, {changed_tree / file, unchanged_program}, command);
}

}  // namespace

fs::path source_of_build(const fs::path& build) {
  return fs::canonical(cached(fs::absolute(build), "CMAKE_HOME_DIRECTORY"));
}

std::string ninja_of_build(const fs::path& build) { return cached(build, "CMAKE_MAKE_PROGRAM"); }

fs::path variant_program(const fs::path& folder, const std::string& name) {
  return fs::absolute(folder) / name / "program";
}

void write_variants(const fs::path& build_folder, const std::string& target,
                    const std::vector<Variant>& variants, const fs::path& folder) {
  const fs::path build = fs::canonical(build_folder);
  const std::string tree = cached(build, "CMAKE_HOME_DIRECTORY"), unchanged = build / target;
  require(fs::exists(unchanged), "{}: is not built", unchanged);
  const Link link(build, target);
  std::string text =
      fmt::format("rule run\n  command = cd '{}' && $do\n  description = $out\n", build.string());
  for (const Variant& variant : variants) {
    const auto readers = link.readers_of(fs::path(tree) / variant.file);
    require(!readers.empty(), "{}: nothing in {} reads {}", variant.name, target, variant.file);
    const fs::path own = fs::absolute(folder) / variant.name, program = variant_program(folder, variant.name);
    const fs::path changed = own / "source" / variant.file;
    fs::create_directories(changed.parent_path());
    // An unchanged file keeps its time, so that ninja goes on where it was stopped.
    if (!fs::exists(changed) || read_file(changed) != variant.text) write_file(changed, variant.text);

    std::string command = link.command(), in_front;
    std::vector<std::string> objects;
    for (const Unit& unit : readers) {
      objects.push_back(own / unit.object);
      text += compile_edge(unit, tree, variant.file, own / "source", objects.back(), unchanged);
      if (link.names(unit.object))
        replace_in(command, " " + unit.object + " ", " " + objects.back() + " ");
      else
        in_front += " " + objects.back();
    }
    const std::string partial = program.string() + ".partial";
    replace_in(command, " -o " + target + " ", in_front + " -o " + partial + " ");
    text += edge(program, objects, command + " && mv " + partial + " " + program.string());
  }
  write_file(fs::absolute(folder) / "build.ninja", text);
}

}  // namespace h3::gate
