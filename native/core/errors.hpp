// C++ exceptions that reach Python as the classes of hinterland.runtime.errors of the same name.
#pragma once

#include <stdexcept>
#include <string>

namespace hinterland::native {

struct FormatError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StorageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// "what: strerror(code)", for a failed system call.
[[noreturn]] void throw_errno(const std::string& what, int code);

void register_errors();

}  // namespace hinterland::native
