// What every transfer between a file and memory stands on: a descriptor that closes itself, and memory that direct I/O takes.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "core/errors.hpp"

namespace hinterland::native {

constexpr int64_t kDirectAlign = 4096;  // what direct I/O asks of offsets, sizes and addresses

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

// StorageError where another has it open for writing. Kept by the open file, and so let go however the process ends.
inline void become_writer(const Descriptor& file, const std::string& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0)
    throw StorageError("cannot write " + path + ": it is open for writing already; a file has one writer at a time");
}

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using DirectMemory = std::unique_ptr<char, Free>;

// `bytes` bytes, a multiple of kDirectAlign; null where there is no memory.
inline DirectMemory direct_memory(int64_t bytes) {
  return DirectMemory{static_cast<char*>(std::aligned_alloc(kDirectAlign, bytes))};
}

}  // namespace hinterland::native
