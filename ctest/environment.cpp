#include "ctest/environment.h"

#include <dlfcn.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <thread>

namespace h3::gate {
namespace {

using Json = nlohmann::ordered_json;

// What follows the separator in the first line that begins with `key`; null without one.
Json entry_of(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::string value = line.substr(line.find(separator) + 1);
    const auto first = value.find_first_not_of(" \t\""), last = value.find_last_not_of(" \t\"");
    return first == std::string::npos ? Json() : Json(value.substr(first, last - first + 1));
  }
  return nullptr;
}

std::int64_t gib(double bytes) { return std::int64_t(bytes / double(1 << 30) + 0.5); }

// NVIDIA's management library, opened where it is; its functions by name and its numbers by their meaning.
class Management {
 public:
  using Device = void*;

  Management() : library_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    ready_ = library_ && call("nvmlInit_v2");
  }
  ~Management() {
    if (ready_) call("nvmlShutdown");
  }
  Management(const Management&) = delete;
  Management& operator=(const Management&) = delete;
  bool ready() const { return ready_; }

  // Whether the function is there and succeeded.
  template <class... Arguments>
  bool call(const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    return function && function(arguments...) == 0;
  }
  template <class... Arguments>
  Json text(const char* name, Arguments... arguments) const {
    char value[96] = {};
    return call(name, arguments..., static_cast<char*>(value), unsigned(sizeof value)) ? Json(value) : Json();
  }
  template <class... Arguments>
  Json number(const char* name, Arguments... arguments) const {
    unsigned value = 0;
    return call(name, arguments..., &value) ? Json(value) : Json();
  }

 private:
  void* library_;
  bool ready_ = false;
};

Json gpu_of(const Management& management, Management::Device device) {
  constexpr int kSmClock = 1;
  struct {
    unsigned long long total = 0, free = 0, used = 0;
  } memory;
  unsigned ecc = 0, ecc_pending = 0, milliwatts = 0;
  const bool has_memory = management.call("nvmlDeviceGetMemoryInfo", device, static_cast<void*>(&memory));
  const bool has_ecc = management.call("nvmlDeviceGetEccMode", device, &ecc, &ecc_pending);
  const bool has_power = management.call("nvmlDeviceGetEnforcedPowerLimit", device, &milliwatts);
  return {{"name", management.text("nvmlDeviceGetName", device)},
          {"memory_gib", has_memory ? Json(gib(double(memory.total))) : Json()},
          {"ecc", has_ecc ? Json(ecc == 1) : Json()},
          {"sm_clock_mhz", management.number("nvmlDeviceGetClockInfo", device, kSmClock)},
          {"sm_clock_max_mhz", management.number("nvmlDeviceGetMaxClockInfo", device, kSmClock)},
          {"power_limit_w", has_power ? Json(milliwatts / 1000) : Json()}};
}

Json cuda_version(const Management& management) {
  int version = 0;
  if (!management.call("nvmlSystemGetCudaDriverVersion_v2", &version)) return nullptr;
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Json environment() {
  utsname system{};
  const bool known = ::uname(&system) == 0;
  Json json = {{"os", entry_of("/etc/os-release", "PRETTY_NAME=", '=')},
               {"kernel", known ? Json(std::string(system.sysname) + " " + system.release) : Json()},
               {"cpu", entry_of("/proc/cpuinfo", "model name", ':')},
               {"cores", std::thread::hardware_concurrency()},
               {"memory_gib", gib(double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGE_SIZE)))},
               {"compiler", __VERSION__},
               {"driver", nullptr},
               {"cuda_driver", nullptr},
               {"gpus", Json::array()}};
  const Management management;
  if (!management.ready()) return json;
  json["driver"] = management.text("nvmlSystemGetDriverVersion");
  json["cuda_driver"] = cuda_version(management);
  unsigned count = 0;
  if (!management.call("nvmlDeviceGetCount_v2", &count)) return json;
  for (unsigned i = 0; i < count; ++i) {
    Management::Device device = nullptr;
    if (management.call("nvmlDeviceGetHandleByIndex_v2", i, &device))
      json["gpus"].push_back(gpu_of(management, device));
  }
  return json;
}

}  // namespace h3::gate
