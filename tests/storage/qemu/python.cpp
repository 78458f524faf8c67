// The first process of a virtual machine that runs one program of the machine around it, whose files it sees: the arguments
// behind "--" of the kernel's command line are PCI addresses for vfio-pci, "run", and that program.
#include <sys/wait.h>

#include "guest.hpp"

int main(int count, char** words) {
  test::begin_guest();
  test::load_modules();
  int at = 1;
  for (; at < count && std::string(words[at]) != "run"; ++at) test::hand_over(words[at]);
  const auto mounted = [](const char* what, const char* folder, const char* kind, const char* options = nullptr) {
    CHECK(::mount(what, folder, kind, 0, options) == 0, "%s: error %d", folder, errno);
  };
  ::mkdir("/outside", 0755);
  mounted("outside", "/outside", "9p", "trans=virtio,version=9p2000.L,cache=loose,msize=524288,ro");
  mounted("proc", "/outside/proc", "proc");
  mounted("sysfs", "/outside/sys", "sysfs");
  mounted("devtmpfs", "/outside/dev", "devtmpfs");
  mounted("tmpfs", "/outside/tmp", "tmpfs");
  CHECK(::chroot("/outside") == 0 && ::chdir("/") == 0, "chroot: error %d", errno);
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(words[at + 1], words + at + 1);
    std::_Exit(127);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child && status == 0, "the program ended with %d", status);
  test::end_guest();
}
