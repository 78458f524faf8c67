// How a driver in this process reaches its device: the device's registers, and memory that both of them read and write.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

#include "core/errors.hpp"
#include "hinterland/storage/nvme.hpp"
#include "storage/descriptor.hpp"

namespace hinterland::native {

class PciDevice {
 public:
  virtual ~PciDevice() = default;

  virtual std::span<char> registers() = 0;
  // From now on the device may read and write this memory, whole pages, at the address that is returned. StorageError.
  virtual uint64_t map(std::span<char> memory) = 0;
  virtual void unmap(uint64_t address, uint64_t bytes) noexcept = 0;
  // The device reaches no memory any more, whatever it is at.
  virtual void cut_off() noexcept = 0;
};

inline uint64_t whole_pages(uint64_t bytes) { return ceil_div(bytes, storage::kMemoryPageBytes) * storage::kMemoryPageBytes; }

// Memory that a device reads and writes, zero at first.
class DeviceMemory {
 public:
  DeviceMemory(PciDevice& device, uint64_t bytes)
      : device_(device), bytes_(whole_pages(bytes)), memory_(direct_memory(static_cast<int64_t>(bytes_))) {
    if (!memory_) throw OutOfMemory("no memory for the queues of a device: " + std::to_string(bytes_) + " bytes");
    std::memset(memory_.get(), 0, bytes_);
    address_ = device_.map({memory_.get(), bytes_});
  }
  ~DeviceMemory() { device_.unmap(address_, bytes_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  [[nodiscard]] char* data() const { return memory_.get(); }
  [[nodiscard]] uint64_t address() const { return address_; }  // for the device

 private:
  PciDevice& device_;
  uint64_t bytes_;
  DirectMemory memory_;
  uint64_t address_;
};

}  // namespace hinterland::native
