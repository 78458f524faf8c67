#include "storage/vfio_device.hpp"

#include <linux/pci_regs.h>
#include <linux/vfio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace hinterland::native {

namespace {

namespace fs = std::filesystem;

constexpr const char* kNvmeClass = "0x010802";
// From where on memory gets its addresses: above those of 32 bits, some of which are not memory's, and within the 39 bits that
// the smallest IOMMUs have. Each begins with a large page, so that the IOMMU's tables stay short.
constexpr uint64_t kFirstAddress = uint64_t{1} << 32, kAligned = 2 << 20;

std::string line_of(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

// The last part of what a link leads to; empty if there is no such link.
std::string target_of(const fs::path& link) {
  std::error_code none;
  return fs::read_symlink(link, none).filename().string();
}

std::string controllers_in(const fs::path& devices) {
  std::string found;
  std::error_code none;
  for (const auto& one : fs::directory_iterator(devices, none))
    if (line_of(one.path() / "class") == kNvmeClass) found += (found.empty() ? "" : ", ") + one.path().filename().string();
  return found.empty() ? "there is no NVMe controller on this machine" : "the NVMe controllers of this machine are " + found;
}

// The device's IOMMU group. StorageError with what has to be done first.
std::string require_handed_over(const std::string& address, const std::string& root) {
  const fs::path devices = root + "/sys/bus/pci/devices", device = devices / address;
  if (!fs::exists(device)) throw StorageError("there is no PCI device " + address + "; " + controllers_in(devices));
  const std::string kind = line_of(device / "class");
  if (kind != kNvmeClass)
    throw StorageError("the PCI device " + address + " is of class " + kind + " and no NVMe controller, which are of " +
                       kNvmeClass + "; " + controllers_in(devices));
  const std::string driver = target_of(device / "driver"), at = "/sys/bus/pci/devices/" + address;
  if (driver != "vfio-pci") {
    const std::string unbind = driver.empty() ? "" : "echo " + address + " > " + at + "/driver/unbind; ";
    throw StorageError("the NVMe controller " + address +
                       (driver.empty() ? " has no driver" : " belongs to the driver " + driver) +
                       ", not to vfio-pci. See that none of its file systems is in use: what is on it is this process's to "
                       "overwrite then. As root: modprobe vfio-pci; driverctl --nosave set-override " +
                       address + " vfio-pci (or, without driverctl: echo vfio-pci > " + at + "/driver_override; " + unbind +
                       "echo " + address + " > /sys/bus/pci/drivers_probe)");
  }
  const std::string group = target_of(device / "iommu_group");
  if (group.empty())
    throw StorageError("the NVMe controller " + address +
                       " has no IOMMU group: turn the IOMMU on in the machine's firmware "
                       "(VT-d, AMD-Vi), and boot Linux with intel_iommu=on if it is Intel's");
  return group;
}

// Devices of the group that the kernel did not give away.
std::string others_of(const std::string& group, const std::string& root) {
  std::string found;
  std::error_code none;
  for (const auto& one : fs::directory_iterator(root + "/sys/kernel/iommu_groups/" + group + "/devices", none)) {
    const std::string driver = target_of(one.path() / "driver");
    if (!driver.empty() && driver != "vfio-pci" && driver != "pcieport")
      found += (found.empty() ? "" : ", ") + one.path().filename().string() + " (" + driver + ")";
  }
  return found;
}

[[noreturn]] void fail_to_open(const std::string& path) {
  if (errno == ENOENT) throw StorageError("there is no " + path + ": load the kernel's module (as root: modprobe vfio-pci)");
  if (errno == EACCES || errno == EPERM)
    throw StorageError("no permission on " + path + ": give it to this user (as root: chown " + std::to_string(::geteuid()) +
                       " " + path + ", or a rule of udev's, for good)");
  if (errno == EBUSY) throw StorageError(path + " is in use by another process; a device has one at a time");
  throw_errno("cannot open " + path, errno);
}

[[noreturn]] void fail_to_lock(const std::string& address, uint64_t bytes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  throw StorageError("the device " + address + " needs " + std::to_string(bytes) +
                     " bytes more of memory that stays in place, "
                     "and this process may lock " +
                     std::to_string(limit.rlim_cur) +
                     " in all: raise that (ulimit -l, memlock in "
                     "/etc/security/limits.conf, LimitMEMLOCK= of a service)");
}

}  // namespace

VfioDevice::VfioDevice(const std::string& address, const std::string& root) : address_(address) {
  join_group(root, require_handed_over(address, root));
  device_ = Descriptor(::ioctl(group_.get(), VFIO_GROUP_GET_DEVICE_FD, address.c_str()));
  if (!device_.open()) throw_errno("vfio does not give the device " + address, errno);
  config_ = part(VFIO_PCI_CONFIG_REGION_INDEX).second;
  if (!set_bus_master(true)) throw_errno("cannot write the configuration of the device " + address, errno);
  map_registers();
}

void VfioDevice::join_group(const std::string& root, const std::string& group) {
  const std::string container = root + "/dev/vfio/vfio", own = root + "/dev/vfio/" + group;
  container_ = Descriptor(container, O_RDWR);
  if (!container_.open()) fail_to_open(container);
  group_ = Descriptor(own, O_RDWR);
  if (!group_.open()) fail_to_open(own);
  if (::ioctl(container_.get(), VFIO_GET_API_VERSION) != VFIO_API_VERSION ||
      ::ioctl(container_.get(), VFIO_CHECK_EXTENSION, VFIO_TYPE1v2_IOMMU) != 1)
    throw StorageError(container +
                       " is not the kernel's vfio with a type 1 IOMMU: load it (as root: modprobe vfio_iommu_type1)");
  vfio_group_status status{};
  status.argsz = sizeof(status);
  if (::ioctl(group_.get(), VFIO_GROUP_GET_STATUS, &status) != 0) throw_errno("cannot use " + own, errno);
  if ((status.flags & VFIO_GROUP_FLAGS_VIABLE) == 0)
    throw StorageError("the IOMMU knows " + address_ +
                       " only together with other devices: hand them to vfio-pci as well: " + others_of(group, root));
  const int fd = container_.get();
  if (::ioctl(group_.get(), VFIO_GROUP_SET_CONTAINER, &fd) != 0 || ::ioctl(fd, VFIO_SET_IOMMU, VFIO_TYPE1v2_IOMMU) != 0)
    throw_errno("vfio does not let the device " + address_ +
                    " reach memory (dmesg says why; without interrupt remapping as root: "
                    "echo 1 > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts)",
                errno);
}

// How large a part of the device is, and where it lies in the device's file.
std::pair<uint64_t, uint64_t> VfioDevice::part(uint32_t index) const {
  vfio_region_info info{};
  info.argsz = sizeof(info);
  info.index = index;
  if (::ioctl(device_.get(), VFIO_DEVICE_GET_REGION_INFO, &info) != 0)
    throw_errno("vfio does not say what the device " + address_ + " consists of", errno);
  return {info.size, info.offset};
}

void VfioDevice::map_registers() {
  const auto [bytes, offset] = part(VFIO_PCI_BAR0_REGION_INDEX);
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, device_.get(), static_cast<off_t>(offset));
  if (at == MAP_FAILED) throw_errno("cannot map the registers of the device " + address_, errno);
  registers_ = {static_cast<char*>(at), bytes};
}

VfioDevice::~VfioDevice() {
  if (!registers_.empty()) ::munmap(registers_.data(), registers_.size());
}

uint64_t VfioDevice::map(std::span<char> memory) {
  const std::lock_guard held(guard_);
  uint64_t at = kFirstAddress;
  for (const auto& [begin, end] : taken_) {
    if (at + memory.size() <= begin) break;
    at = ceil_div(end, kAligned) * kAligned;
  }
  vfio_iommu_type1_dma_map request{.argsz = sizeof(request),
                                   .flags = VFIO_DMA_MAP_FLAG_READ | VFIO_DMA_MAP_FLAG_WRITE,
                                   .vaddr = reinterpret_cast<uint64_t>(memory.data()),
                                   .iova = at,
                                   .size = memory.size()};
  if (::ioctl(container_.get(), VFIO_IOMMU_MAP_DMA, &request) != 0) {
    if (errno == ENOMEM) fail_to_lock(address_, memory.size());
    throw_errno("the device " + address_ + " cannot be given memory", errno);
  }
  taken_[at] = at + memory.size();
  return at;
}

void VfioDevice::unmap(uint64_t address, uint64_t bytes) noexcept {
  const std::lock_guard held(guard_);
  vfio_iommu_type1_dma_unmap request{.argsz = sizeof(request), .flags = 0, .iova = address, .size = bytes};
  ::ioctl(container_.get(), VFIO_IOMMU_UNMAP_DMA, &request);
  taken_.erase(address);
}

// Whether the device may read and write memory by itself, and answers at its registers.
bool VfioDevice::set_bus_master(bool on) noexcept {
  constexpr uint16_t kBits = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
  uint16_t command = 0;
  const auto at = static_cast<off_t>(config_ + PCI_COMMAND);
  if (::pread(device_.get(), &command, sizeof(command), at) != sizeof(command)) return false;
  command = static_cast<uint16_t>(on ? command | kBits : command & ~PCI_COMMAND_MASTER);
  return ::pwrite(device_.get(), &command, sizeof(command), at) == sizeof(command);
}

}  // namespace hinterland::native
