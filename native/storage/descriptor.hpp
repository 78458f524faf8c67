// What every transfer between a file and memory stands on: a descriptor that closes itself, and memory that direct I/O takes.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "core/errors.hpp"

namespace hinterland::native {

constexpr int64_t kDirectAlign = 4096;  // what direct I/O asks of offsets, sizes and addresses

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

[[noreturn]] inline void throw_has_writer(const std::string& path) {
  throw StorageError("cannot write " + path + ": it is open for writing already; a file has one writer at a time");
}

// StorageError where another has it open for writing. Kept by the open file, and so let go however the process ends.
inline void become_writer(const Descriptor& file, const std::string& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) throw_has_writer(path);
}

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using DirectMemory = std::unique_ptr<char, Free>;

// `bytes` bytes, a multiple of kDirectAlign; null where there is no memory.
inline DirectMemory direct_memory(int64_t bytes) {
  return DirectMemory{static_cast<char*>(std::aligned_alloc(kDirectAlign, bytes))};
}

// The same in large pages, if the system has some: a transfer of 64 KiB is then in one piece, and not in 16, which took a disk
// twice as long (docs/notes/storage-on-2-cores.md).
inline constexpr int64_t kLargePage = 2 << 20;
inline DirectMemory large_pages(int64_t bytes) {
  const int64_t whole = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  DirectMemory memory{static_cast<char*>(std::aligned_alloc(kLargePage, whole))};
  // Some systems refuse. The last is a large one only if it is whole, or more than `bytes` would be taken.
  if (memory) ::madvise(memory.get(), bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
  return memory;
}

}  // namespace hinterland::native
