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
  return driver;
}

const Driver& driver() {
  static const Driver found = open();
  return found;
}

}  // namespace

int launch(const Launch& kernel, void* params) {
  const Driver& cuda = driver();
  int current;
  if (cuda.cuCtxGetDevice(&current) != 0 || current != kernel.device) return kInvalidContext;
  const auto [function, device, grid, block, shared, stream, cooperative] = kernel;
  if (cooperative) return cuda.cuLaunchCooperativeKernel(function, grid, 1, 1, block, 1, 1, shared, stream, &params);
  return cuda.cuLaunchKernel(function, grid, 1, 1, block, 1, 1, shared, stream, &params, nullptr);
}

int call_host(uintptr_t stream, void (*function)(void*), void* argument) {
  return driver().cuLaunchHostFunc(stream, function, argument);
}

std::string error_name(int error) {
  const char* name = nullptr;
  if (driver().cuGetErrorName(error, &name) != 0 || name == nullptr) return "error " + std::to_string(error);
  return name;
}

}  // namespace hinterland::native
