// Stands for CUDA's driver where there is none: keeps what the last launch got, and refuses, or waits, when told to. Copies are
// made when somebody waits for an event behind them, and no sooner. Built as libcuda.so.1.
#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

namespace {

constexpr int kInvalidContext = 201, kNotReady = 600;
constexpr auto kPatience = std::chrono::seconds(20);

thread_local int current = -1;  // the device of the thread's context, if it has one
int refusal = 0;
size_t params_bytes = 0;
std::atomic<bool> full = false, waiting = false;
int64_t seen[12];
char params_seen[64];

struct Copy {
  uintptr_t to, from;
  size_t bytes;
};
std::vector<Copy> copies;
size_t copied = 0;
std::map<uintptr_t, size_t> recorded;  // copies before each event

int launch(int64_t function, const unsigned (&shape)[7], int64_t stream, void** params, bool cooperative) {
  if (refusal != 0) return refusal;
  waiting = true;
  for (const auto begin = std::chrono::steady_clock::now(); full; std::this_thread::yield())
    if (std::chrono::steady_clock::now() - begin > kPatience) return kNotReady;
  waiting = false;
  seen[0] = function;
  for (int i = 0; i < 7; ++i) seen[1 + i] = shape[i];
  seen[8] = stream;
  seen[9] = cooperative;
  seen[10] = current;
  ++seen[11];
  std::memcpy(params_seen, params[0], params_bytes);
  return 0;
}

}  // namespace

extern "C" {

// What tests say and ask. `get_seen`: function, grid, block, shared memory, stream, cooperative, device, launches so far.
void set_device(int device) { current = device; }
int get_device() { return current; }
void set_params_bytes(size_t bytes) { params_bytes = bytes; }
void set_refusal(int error) { refusal = error; }
void set_full(bool yes) { full = yes; }
bool is_waiting() { return waiting; }
const int64_t* get_seen() { return seen; }
const char* get_params() { return params_seen; }

int64_t num_copied() { return copied; }

// What hinterland calls.
int cuMemcpyHtoDAsync_v2(uintptr_t to, uintptr_t from, size_t bytes, uintptr_t) {
  copies.push_back({to, from, bytes});
  return refusal;
}

int cuEventRecord(uintptr_t event, uintptr_t) {
  recorded[event] = copies.size();
  return 0;
}

int cuEventSynchronize(uintptr_t event) {
  for (; copied < recorded[event]; ++copied)
    std::memcpy(reinterpret_cast<void*>(copies[copied].to), reinterpret_cast<void*>(copies[copied].from), copies[copied].bytes);
  return 0;
}

int cuEventQuery(uintptr_t event) { return copied < recorded[event] ? kNotReady : 0; }

int cuCtxGetDevice(int* device) {
  *device = current;
  return current < 0 ? kInvalidContext : 0;
}

int cuStreamGetCaptureInfo_v2(uintptr_t, int* status, uint64_t* id, uintptr_t*, const uintptr_t**, size_t*) {
  *status = 0;  // no stream is captured
  *id = 0;
  return 0;
}

int cuGetErrorName(int error, const char** name) {
  *name = error == 1 ? "CUDA_ERROR_INVALID_VALUE" : nullptr;
  return error == 1 ? 0 : 1;
}

int cuLaunchKernel(int64_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, int64_t stream, void** params, void**) {
  return launch(function, {gx, gy, gz, bx, by, bz, shared}, stream, params, false);
}

int cuLaunchCooperativeKernel(int64_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                              unsigned shared, int64_t stream, void** params) {
  return launch(function, {gx, gy, gz, bx, by, bz, shared}, stream, params, true);
}

int cuLaunchHostFunc(int64_t, void (*function)(void*), void* argument) {
  function(argument);
  return 0;
}

// What cuda-core and cuda-bindings call besides; such a launch is not kept.
int cuLaunchKernelEx(const void*, int64_t, void**, void**) { return 0; }

int cuThreadExchangeStreamCaptureMode(int*) { return 0; }

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}

int cuGetProcAddress_v2(const char* name, void** entry, int, uint64_t, int* status) {
  *entry = dlsym(RTLD_DEFAULT, name);
  if (status != nullptr) *status = 0;
  return 0;
}

}  // extern "C"
