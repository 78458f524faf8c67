// An array that grows without copying: pages are moved by the kernel (mremap), and what is not written yet takes no memory.
// A reader that does not trust its header appends to one and never needs the old and the new copy at once.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "core/errors.hpp"

namespace hinterland::native {

class GrowingBytes {
 public:
  GrowingBytes() = default;
  GrowingBytes(GrowingBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), capacity_(std::exchange(other.capacity_, 0)) {}
  GrowingBytes& operator=(GrowingBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~GrowingBytes() {
    if (data_ != nullptr) ::munmap(data_, capacity_);
  }

  void reserve(size_t bytes) {
    if (bytes <= capacity_) return;
    size_t wanted = std::max({bytes, capacity_ + capacity_ / 2, size_t{1} << 16});
    wanted = (wanted + 4095) / 4096 * 4096;
    void* grown = data_ == nullptr
                      ? ::mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                      : ::mremap(data_, capacity_, wanted, MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) {
      throw OutOfMemory("the edges read so far need " + std::to_string(wanted) +
                        " bytes, which the system does not grant; free memory or raise the process's limit");
    }
    data_ = grown;
    capacity_ = wanted;
  }

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace hinterland::native
