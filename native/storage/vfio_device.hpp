// A PCI device that vfio-pci, the kernel's own driver, hands to this process. What the device reads and writes by itself goes
// through an IOMMU, which knows of the memory that map() was given and of no other.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "storage/pci_device.hpp"

namespace hinterland::native {

class VfioDevice : public PciDevice {
 public:
  // The NVMe controller at a PCI address as 0000:01:00.0. StorageError with the remedy where there is none, or it is not this
  // process's to have. `root` stands before /sys and /dev, for tests.
  explicit VfioDevice(const std::string& address, const std::string& root = "");
  ~VfioDevice() override;
  VfioDevice(const VfioDevice&) = delete;
  VfioDevice& operator=(const VfioDevice&) = delete;

  std::span<char> registers() override { return registers_; }
  uint64_t map(std::span<char> memory) override;
  void unmap(uint64_t address, uint64_t bytes) noexcept override;
  void cut_off() noexcept override { set_bus_master(false); }

 private:
  void join_group(const std::string& root, const std::string& group);
  std::pair<uint64_t, uint64_t> part(uint32_t index) const;
  void map_registers();
  bool set_bus_master(bool on) noexcept;

  const std::string address_;
  Descriptor container_, group_, device_;  // of which the kernel takes the device back when the last is closed
  std::span<char> registers_;
  uint64_t config_ = 0;  // where the device's configuration space lies in its file
  std::mutex guard_;
  std::map<uint64_t, uint64_t> taken_;  // addresses that the device knows: [first, second)
};

}  // namespace hinterland::native
