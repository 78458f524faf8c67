#include "runtime/launch.hpp"

#include <dlfcn.h>

#include <type_traits>

#include "core/errors.hpp"

namespace hinterland::native {

namespace {

// The entry points, as cuda.h has them: results are enums, handles pointers.
struct Driver {
  int (*cuCtxGetDevice)(int*);
  int (*cuGetErrorName)(int, const char**);
  int (*cuLaunchKernel)(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t, void**,
                        void**);
  int (*cuLaunchCooperativeKernel)(uintptr_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, uintptr_t,
                                   void**);
  int (*cuLaunchHostFunc)(uintptr_t, void (*)(void*), void*);
  int (*cuMemcpyHtoDAsync)(uintptr_t, uintptr_t, size_t, uintptr_t);
  int (*cuEventRecord)(uintptr_t, uintptr_t);
  int (*cuEventSynchronize)(uintptr_t);
  int (*cuEventQuery)(uintptr_t);
  int (*cuStreamGetCaptureInfo)(uintptr_t, int*, uint64_t*, uintptr_t*, const uintptr_t**, size_t*);
};

Driver open() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);  // kept open: the process has it anyway
  if (library == nullptr) throw DeviceError(std::string("a kernel cannot be launched without CUDA's driver: ") + dlerror());
  Driver driver;
  const auto find = [&](auto& entry, const char* name) {
    entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(dlsym(library, name));
    if (entry == nullptr)
      throw DeviceError(std::string("CUDA's driver, libcuda.so.1, has no ") + name + "; install one for CUDA 13");
  };
  find(driver.cuCtxGetDevice, "cuCtxGetDevice");
  find(driver.cuGetErrorName, "cuGetErrorName");
  find(driver.cuLaunchKernel, "cuLaunchKernel");
  find(driver.cuLaunchCooperativeKernel, "cuLaunchCooperativeKernel");
  find(driver.cuLaunchHostFunc, "cuLaunchHostFunc");
  find(driver.cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  find(driver.cuEventRecord, "cuEventRecord");
  find(driver.cuEventSynchronize, "cuEventSynchronize");
  find(driver.cuEventQuery, "cuEventQuery");
  find(driver.cuStreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2");
  return driver;
}

const Driver& driver() {
  static const Driver found = open();
  return found;
}

bool is_current(int device) {
  int current;
  return driver().cuCtxGetDevice(&current) == 0 && current == device;
}

// What cuda.h calls CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE and CU_LAUNCH_PARAM_END.
void* const kBufferPointer = reinterpret_cast<void*>(uintptr_t{1});
void* const kBufferSize = reinterpret_cast<void*>(uintptr_t{2});
void* const kBufferEnd = nullptr;

}  // namespace

int launch(const Launch& kernel, void* params) {
  const Driver& cuda = driver();
  if (!is_current(kernel.device)) return kInvalidContext;
  const auto [function, device, grid, block, shared, stream, cooperative] = kernel;
  if (cooperative) return cuda.cuLaunchCooperativeKernel(function, grid, 1, 1, block, 1, 1, shared, stream, &params);
  return cuda.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, &params, nullptr);
}

int launch_packed(const Launch& kernel, void* params, size_t bytes) {
  if (!is_current(kernel.device)) return kInvalidContext;
  void* extra[] = {kBufferPointer, params, kBufferSize, &bytes, kBufferEnd};
  return driver().cuLaunchKernel(kernel.function, kernel.grid, 1, 1, kernel.block, 1, 1, kernel.shared, kernel.stream, nullptr,
                                 extra);
}

int call_host(uintptr_t stream, void (*function)(void*), void* argument) {
  return driver().cuLaunchHostFunc(stream, function, argument);
}

int copy_to_gpu(uintptr_t to, uintptr_t from, size_t bytes, uintptr_t stream) {
  return driver().cuMemcpyHtoDAsync(to, from, bytes, stream);
}

int record_event(uintptr_t event, uintptr_t stream) { return driver().cuEventRecord(event, stream); }

int wait_for_event(uintptr_t event) { return driver().cuEventSynchronize(event); }

bool is_done(uintptr_t event) { return driver().cuEventQuery(event) == 0; }

uint64_t capture_id(uintptr_t stream) {
  int status = 0;  // 1 is active
  uint64_t id = 0;
  const int error = driver().cuStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr);
  return error == 0 && status == 1 ? id : 0;
}

std::string error_name(int error) {
  const char* name = nullptr;
  if (driver().cuGetErrorName(error, &name) != 0 || name == nullptr) return "error " + std::to_string(error);
  return name;
}

}  // namespace hinterland::native
