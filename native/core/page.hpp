// The system's memory page, which mmap's relatives round to: 4 KiB on x86-64, on aarch64 also 16 or 64.
#pragma once

#include <unistd.h>

#include <cstdint>

namespace hinterland::native {

inline int64_t page_bytes() {
  static const int64_t bytes = ::sysconf(_SC_PAGESIZE);
  return bytes;
}

}  // namespace hinterland::native
