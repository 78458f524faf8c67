// Blocks that no file descriptor reaches: a device that this process drives by itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace hinterland::native {

class Transfers;

// Used by any number of threads. Who makes transfers of it keeps it as long as they are there.
class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  // For one thread, with room for so many in flight. StorageError.
  virtual std::unique_ptr<Transfers> make_transfers(unsigned depth) = 0;
  [[nodiscard]] virtual uint64_t bytes() const = 0;
  [[nodiscard]] virtual uint32_t block_bytes() const = 0;  // what offsets and sizes are multiples of
  // All writes that have ended survive the loss of power: 0, or an error number.
  virtual int sync() = 0;

  std::atomic<bool> has_writer = false;
};

// The device that a name as "nvme:0000:01:00.0" or "nvme:0000:01:00.0/2" (its second namespace) means, which stays open as long
// as anybody has it; null for a name that is a file's. StorageError where it cannot be had. `root` stands before /sys and /dev,
// for tests.
std::shared_ptr<BlockDevice> bare_device(const std::string& name, const std::string& root = "");

// `bytes` at `offset`, whatever they are multiples of. StorageError, by `name`.
void read_device(BlockDevice& device, const std::string& name, uint64_t offset, void* to, uint64_t bytes);

}  // namespace hinterland::native
