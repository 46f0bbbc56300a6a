// Runs a fuzz target without libFuzzer: the files of its corpus, then inputs made from them by a few kinds of
// edits. The same runs on every machine. An input that ends the process stays behind as finding-<number>.
//
//   fuzz_contract [--runs N] FILE_OR_FOLDER...
#include <sys/resource.h>
#include <sys/time.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "conformance/fuzz/target.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLargestInput = 1 << 16, kMostMemory = std::size_t(2) << 30;
constexpr unsigned kMostSeconds = 10;

const std::string* running = nullptr;
long runs_so_far = 0;

// Only what may be called when memory is broken.
void keep_finding(int signal) {
  char name[64];
  std::snprintf(name, sizeof name, "finding-%ld", runs_so_far);
  if (std::FILE* file = std::fopen(name, "wb")) {
    std::fwrite(running->data(), 1, running->size(), file);
    std::fclose(file);
  }
  std::fprintf(stderr, "run %ld ended with signal %d; its input is %s\n", runs_so_far, signal, name);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void run(const std::string& input) {
  running = &input;
  ++runs_so_far;
  const itimerval limit = {{}, {kMostSeconds, 0}};  // of its own time: other programs do not count
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

class Edits {
 public:
  explicit Edits(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  std::string next() {
    std::string input = corpus_[below(corpus_.size())];
    for (std::size_t edits = 1 + below(4); edits > 0; --edits) edit(input);
    if (input.size() > kLargestInput) input.resize(kLargestInput);
    return input;
  }

 private:
  std::size_t below(std::size_t count) {  // xorshift64*
    state_ ^= state_ >> 12, state_ ^= state_ << 25, state_ ^= state_ >> 27;
    return std::size_t(state_ * 0x2545F4914F6CDD1Dull >> 33) % std::max<std::size_t>(count, 1);
  }
  void edit(std::string& input) {
    static const std::string kWords[] = {
        "-1", "0",  "1e999",   "18446744073709551615", "9223372036854775807", "null", "[",
        "{",  "\"", "\\u0000", "\xFF\xFF\xFF\xFF",     "4294967296"};
    const std::size_t at = below(input.size() + 1), length = std::min(input.size() - at, 1 + below(32));
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] = char(input[at] ^ 1 << below(8));
        break;
      case 1:
        if (at < input.size()) input[at] = char(below(256));
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(at, input.substr(below(input.size() + 1), length));
        break;
      case 4:
        input.replace(at, below(2) * length, kWords[below(std::size(kWords))]);
        break;
      default: {
        const std::string& other = corpus_[below(corpus_.size())];
        input.replace(at, std::string::npos, other, std::min(at, other.size()), std::string::npos);
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::uint64_t state_ = 420;
};

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  long runs = 0;
  std::vector<fs::path> paths;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--runs" && i + 1 < argc)
      runs = std::atol(argv[++i]);
    else if (fs::is_directory(argv[i]))
      std::copy(fs::directory_iterator(argv[i]), {}, std::back_inserter(paths));
    else
      paths.push_back(argv[i]);
  }
  std::ranges::sort(paths);
  std::vector<std::string> corpus;
  for (const auto& path : paths) corpus.push_back(bytes_of(path));
  if (corpus.empty() || std::ranges::count(corpus, "") > 1) {
    std::fprintf(stderr, "%s: expected files that can be read\n", argv[0]);
    return 2;
  }

#if !defined(__SANITIZE_ADDRESS__)
  const rlimit memory = {kMostMemory, kMostMemory};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGPROF})
    std::signal(signal, keep_finding);
  for (const auto& input : corpus) run(input);
  if (h3::fuzz::accepted == 0) {
    std::fprintf(stderr, "%s: refuses every file of its corpus\n", argv[0]);
    return 1;
  }
  Edits edits(corpus);
  for (long i = 0; i < runs; ++i) run(edits.next());
  std::printf("%s: %zu files and %ld edited inputs, no finding\n", fs::path(argv[0]).filename().c_str(),
              corpus.size(), runs);
  return 0;
}
