// What the only process of a virtual machine does before and after its tests: mounts, modules, devices for vfio-pci, power off.
#pragma once

#include <fcntl.h>
#include <linux/reboot.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "../check.hpp"

namespace test {

inline void write_to(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  CHECK(file.good(), "cannot write %s", path.c_str());
}

// The kernel gives its first process no console where the archive has no /dev.
inline void begin_guest() {
  for (const char* folder : {"/proc", "/sys", "/dev"}) ::mkdir(folder, 0755);
  ::mount("proc", "/proc", "proc", 0, nullptr);
  ::mount("sysfs", "/sys", "sysfs", 0, nullptr);
  ::mount("devtmpfs", "/dev", "devtmpfs", 0, nullptr);
  const int console = ::open("/dev/console", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) ::dup2(console, fd);
  std::setvbuf(stdout, nullptr, _IONBF, 0);
}

// In the order of their names. The machine's IOMMU does not remap interrupts, which nothing here uses.
inline void load_modules() {
  std::vector<std::string> files;
  for (const auto& one : std::filesystem::directory_iterator("/modules")) files.push_back(one.path());
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    const int fd = ::open(file.c_str(), O_RDONLY);
    CHECK(::syscall(SYS_finit_module, fd, "", 0) == 0, "%s: error %d", file.c_str(), errno);
    ::close(fd);
  }
  write_to("/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts", "1");
}

// No driver of the kernel's has it.
inline void hand_over(const std::string& address) {
  write_to("/sys/bus/pci/devices/" + address + "/driver_override", "vfio-pci");
  write_to("/sys/bus/pci/drivers_probe", address);
}

[[noreturn]] inline void end_guest() {
  std::printf("passed\n");
  ::sync();
  ::syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, nullptr);
  std::_Exit(0);
}

}  // namespace test
