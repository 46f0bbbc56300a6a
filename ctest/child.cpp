#include "ctest/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "model/error.h"

namespace h3::gate {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kWatch = std::chrono::milliseconds(2);  // where a moment is waited for
constexpr auto kGrace = std::chrono::seconds(2);       // between being asked to end and being killed

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void become(const Command& command, const std::vector<char*>& arguments) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // when we are killed it does not write on into our files
  const int output = ::open(command.output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const int input = ::open("/dev/null", O_RDONLY);
  if (output < 0 || input < 0 || ::dup2(input, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0)
    ::_exit(127);
  if (command.told_of_largest_file) ::signal(SIGXFSZ, SIG_IGN);
  const rlimit largest = {command.largest_file, command.largest_file};
  if (command.largest_file > 0 && ::setrlimit(RLIMIT_FSIZE, &largest) != 0) ::_exit(127);
  if (!command.working_directory.empty() && ::chdir(command.working_directory.c_str()) != 0) ::_exit(127);
  ::execvp(arguments[0], arguments.data());
  ::dprintf(2, "cannot start %s: %s\n", arguments[0], std::strerror(errno));
  ::_exit(127);
}

}  // namespace

ProcessEnd run_to_end(const Command& command, const std::function<void()>& while_waiting) {
  std::vector<char*> arguments;
  for (const auto& argument : command.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);

  const auto start = Clock::now();
  const pid_t child = ::fork();
  require(child >= 0, "cannot start {}: {}", command.arguments[0], std::strerror(errno));
  if (child == 0) become(command, arguments);
  ::setpgid(child, child);  // in both processes: whoever comes first

  ProcessEnd end;
  Clock::time_point asked_to_end;
  auto pause = std::chrono::milliseconds(1);  // short programs are not kept waiting
  for (int status = 0;;) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    require(ended >= 0 || errno == EINTR, "cannot wait for {}: {}", command.arguments[0],
            std::strerror(errno));
    if (ended == child) {
      if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
      if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
      break;
    }
    if (command.time_limit > 0 && !end.timed_out && seconds_since(start) > command.time_limit) {
      end.timed_out = true;
      asked_to_end = Clock::now();
      ::kill(-child, SIGTERM);
    }
    if (end.timed_out && Clock::now() - asked_to_end > kGrace) ::kill(-child, SIGKILL);
    if (command.kill_when && command.kill_when()) ::kill(-child, SIGKILL);
    while_waiting();
    std::this_thread::sleep_for(pause);
    pause = std::min<std::chrono::milliseconds>(pause * 2, command.kill_when ? kWatch : kPoll);
  }
  ::kill(-child, SIGKILL);  // whatever it left behind in its group
  end.seconds = seconds_since(start);
  while_waiting();
  return end;
}

std::string output_of(const std::vector<std::string>& arguments) {
  std::string file = (std::filesystem::temp_directory_path() / "h3_gate_XXXXXX").string();
  const int handle = ::mkstemp(file.data());
  require(handle >= 0, "cannot create a temporary file in {}",
          std::filesystem::temp_directory_path().string());
  ::close(handle);
  const ProcessEnd end = run_to_end({.arguments = arguments, .output_file = file, .time_limit = 600});
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  std::filesystem::remove(file);
  return end.clean() ? std::move(text).str() : "";
}

}  // namespace h3::gate
