// Runs one program to its end, or to its time limit.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace h3::gate {

struct Command {
  std::vector<std::string> arguments = {};  // the program first; searched in PATH when it has no slash
  std::string working_directory = "";       // "" keeps ours
  std::string output_file = "";             // receives stdout and stderr; overwritten
  double time_limit = 0;                    // seconds; 0 is none
  std::function<bool()> kill_when = {};     // asked all the time; true: killed at once
  std::uint64_t largest_file = 0;           // bytes that it may write to one file; 0: as many as it likes.
                                            // The first byte beyond them kills it by SIGXFSZ ...
  bool told_of_largest_file = false;        // ... or comes back as an error, like a full disk
};

struct ProcessEnd {
  int exit_code = -1;  // -1 when a signal ended it; 127 when it could not be started
  int signal = 0;
  bool timed_out = false;
  double seconds = 0;
  bool clean() const { return exit_code == 0 && !timed_out; }
};

// The child leads its own process group: at the time limit the whole group is asked to end, then killed. It
// is killed, too, when the caller is.
// `while_waiting` is called about twenty times a second.
ProcessEnd run_to_end(
    const Command& command, const std::function<void()>& while_waiting = [] {});

// stdout and stderr of a short command; empty when it failed.
std::string output_of(const std::vector<std::string>& arguments);

}  // namespace h3::gate
