// A libnvidia-ml.so.1 with one GPU that warms up, slows down and has an ECC error while it is looked at: what
// a gate makes of such a machine is tested on any other. Functions and numbers as NVML documents them; the
// clock's and the counter's second answer is another one.
#include <string.h>

typedef struct {
  unsigned long long total, free, used;
} Memory;

static int text(char* value, unsigned size, const char* answer) {
  strncpy(value, answer, size);
  return 0;
}
static int number(unsigned* value, unsigned answer) {
  *value = answer;
  return 0;
}

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char* value, unsigned size) { return text(value, size, "580.159.04"); }
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) { return number(count, 1); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  static char only;
  *device = &only;
  return index != 0;
}
int nvmlDeviceGetName(void* device, char* value, unsigned size) {
  return (void)device, text(value, size, "NVIDIA Stub");
}
int nvmlDeviceGetUUID(void* device, char* value, unsigned size) {
  return (void)device, text(value, size, "GPU-8a56a4bc-e5d4-4e67-b0b4-a1b2c3d4e5f6");
}
int nvmlDeviceGetSerial(void* device, char* value, unsigned size) {
  return (void)device, text(value, size, "1654523001234");
}
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 141ull << 30;
  return device == 0;
}
int nvmlDeviceGetEccMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = 1;
  return device == 0;
}
int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = 0;
  return device == 0;
}
int nvmlDeviceGetPersistenceMode(void* device, unsigned* mode) { return (void)device, number(mode, 1); }
int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return device == 0;
}
int nvmlDeviceGetClockInfo(void* device, int which, unsigned* mhz) {
  static unsigned slower;
  (void)device;
  return number(mhz, which == 2 ? 3201 : 1980 - 15 * slower++);
}
int nvmlDeviceGetMaxClockInfo(void* device, int which, unsigned* mhz) {
  return (void)device, (void)which, number(mhz, 1980);
}
int nvmlDeviceGetEnforcedPowerLimit(void* device, unsigned* milliwatts) {
  return (void)device, number(milliwatts, 700000);
}
int nvmlDeviceGetTemperature(void* device, int which, unsigned* celsius) {
  return (void)device, (void)which, number(celsius, 41);
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  *reasons = 4;
  return device == 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, int kind, int counter, unsigned long long* errors) {
  static unsigned long long corrected;
  *errors = kind == 0 ? corrected++ : 0;
  return device == 0 || counter != 0;
}
