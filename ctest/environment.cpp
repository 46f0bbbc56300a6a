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
  // Whether a mode is on.
  template <class... Arguments>
  Json mode(const char* name, Arguments... arguments) const {
    unsigned value = 0;
    return call(name, arguments..., &value) ? Json(value == 1) : Json();
  }
  template <class Number = unsigned, class... Arguments>
  Json number(const char* name, Arguments... arguments) const {
    Number value = 0;
    return call(name, arguments..., &value) ? Json(value) : Json();
  }

  std::vector<Device> devices() const {
    unsigned count = 0;
    std::vector<Device> found;
    if (!ready_ || !call("nvmlDeviceGetCount_v2", &count)) return found;
    for (unsigned i = 0; i < count; ++i) {
      Device device = nullptr;
      if (call("nvmlDeviceGetHandleByIndex_v2", i, &device)) found.push_back(device);
    }
    return found;
  }

 private:
  void* library_;
  bool ready_ = false;
};

constexpr int kSmClock = 1, kMemoryClock = 2;  // NVML's numbers

Json gpu_of(const Management& management, Management::Device device) {
  struct {
    unsigned long long total = 0, free = 0, used = 0;
  } memory;
  unsigned pending = 0, milliwatts = 0;
  int major = 0, minor = 0;
  const bool has_memory = management.call("nvmlDeviceGetMemoryInfo", device, static_cast<void*>(&memory));
  const bool has_version = management.call("nvmlDeviceGetCudaComputeCapability", device, &major, &minor);
  // These two say a mode and the one after the next start.
  const auto mode_of = [&](const char* name) {
    unsigned current = 0;
    return management.call(name, device, &current, &pending) ? Json(current == 1) : Json();
  };
  const bool has_power = management.call("nvmlDeviceGetEnforcedPowerLimit", device, &milliwatts);
  return {{"name", management.text("nvmlDeviceGetName", device)},
          {"memory_gib", has_memory ? Json(gib(double(memory.total))) : Json()},
          {"compute_capability",
           has_version ? Json(std::to_string(major) + "." + std::to_string(minor)) : Json()},
          {"ecc", mode_of("nvmlDeviceGetEccMode")},
          {"mig", mode_of("nvmlDeviceGetMigMode")},
          {"persistence", management.mode("nvmlDeviceGetPersistenceMode", device)},
          {"sm_clock_mhz", management.number("nvmlDeviceGetClockInfo", device, kSmClock)},
          {"sm_clock_max_mhz", management.number("nvmlDeviceGetMaxClockInfo", device, kSmClock)},
          {"power_limit_w", has_power ? Json(milliwatts / 1000) : Json()}};
}

Json state_of(const Management& management, Management::Device device) {
  constexpr int kCorrected = 0, kUncorrected = 1, kSinceDriverLoaded = 0, kOfGpu = 0;
  using Wide = unsigned long long;
  const auto errors = [&](int kind) {
    return management.number<Wide>("nvmlDeviceGetTotalEccErrors", device, kind, kSinceDriverLoaded);
  };
  return {
      {"sm_clock_mhz", management.number("nvmlDeviceGetClockInfo", device, kSmClock)},
      {"memory_clock_mhz", management.number("nvmlDeviceGetClockInfo", device, kMemoryClock)},
      {"clock_event_reasons", management.number<Wide>("nvmlDeviceGetCurrentClocksThrottleReasons", device)},
      {"temperature_c", management.number("nvmlDeviceGetTemperature", device, kOfGpu)},
      {"ecc_corrected", errors(kCorrected)},
      {"ecc_uncorrected", errors(kUncorrected)}};
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
  for (const auto device : management.devices()) json["gpus"].push_back(gpu_of(management, device));
  return json;
}

Json gpu_states() {
  const Management management;
  Json states = Json::array();
  for (const auto device : management.devices()) states.push_back(state_of(management, device));
  return states;
}

Json environment_after(const Json& states_before) {
  Json json = environment();
  const Json after = gpu_states();
  for (std::size_t i = 0; i < json["gpus"].size(); ++i) {
    json["gpus"][i]["before"] = i < states_before.size() ? states_before[i] : Json();
    json["gpus"][i]["after"] = i < after.size() ? after[i] : Json();
  }
  return json;
}

std::vector<std::pair<std::string, std::string>> gpu_identities() {
  const Management management;
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto device : management.devices()) {
    for (const auto& [kind, name] :
         {std::pair{"serial", "nvmlDeviceGetSerial"}, std::pair{"uuid", "nvmlDeviceGetUUID"}})
      if (const Json value = management.text(name, device); value.is_string())
        found.emplace_back(kind, value.get<std::string>());
  }
  return found;
}

}  // namespace h3::gate
