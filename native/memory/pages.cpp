#include "memory/pages.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/errors.hpp"
#include "core/page.hpp"
#include "core/pool.hpp"
#include "core/thresholds.hpp"

namespace hinterland::native {

namespace {

constexpr uintptr_t kHugePage = 2 << 20;
constexpr const char* kRemedy = "; release some memory, or raise the process's limit (ulimit -v)";

void* mapped(void* at, int64_t bytes, int protection, int flags, int fd) {
  void* const address = ::mmap(at, bytes, protection, flags, fd, 0);
  if (address == MAP_FAILED) {
    throw OutOfMemory("the system refused to map " + std::to_string(bytes) + " bytes: " + std::strerror(errno) + kRemedy);
  }
  return address;
}

}  // namespace

void* map_pages(int fd, int64_t bytes, void* at) {
  const int flags = (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED) | (at == nullptr ? 0 : MAP_FIXED);
  void* const address = mapped(at, bytes, PROT_READ | PROT_WRITE, flags, fd);
  prefer_huge_pages(address, bytes);
  return address;
}

void* reserve_pages(int64_t bytes, int64_t alignment) {
  bytes = (bytes + page_bytes() - 1) / page_bytes() * page_bytes();
  const int64_t more = bytes + alignment;
  char* const first = static_cast<char*>(mapped(nullptr, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1));
  // The last place that is aligned, so that what lies free below the system's choice and what is given back here are one.
  const int64_t past = static_cast<int64_t>((reinterpret_cast<uintptr_t>(first) + alignment) % alignment);
  char* const at = first + alignment - past;
  if (at != first) ::munmap(first, at - first);
  if (at + bytes != first + more) ::munmap(at + bytes, first + more - (at + bytes));
  return at;
}

bool reserve_pages_at(void* at, int64_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void* const address = ::mmap(at, bytes, PROT_NONE, kFlags, -1, 0);
  if (address != MAP_FAILED && address != at) ::munmap(address, bytes);  // a kernel that does not know the last flag
  return address == at;
}

void prefer_huge_pages(void* address, int64_t bytes) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(address);
  const uintptr_t begin = (at + kHugePage - 1) / kHugePage * kHugePage, end = (at + bytes) / kHugePage * kHugePage;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // some systems refuse
}

void unmap_pages(void* address, int64_t bytes) { ::munmap(address, bytes); }

int shared_pages(int64_t bytes) {
  const int fd = ::memfd_create("hinterland", MFD_CLOEXEC);
  if (fd < 0) throw_errno("cannot create shared memory", errno);
  if (::ftruncate(fd, bytes) != 0) {
    const int code = errno;
    ::close(fd);
    throw OutOfMemory("the system refused " + std::to_string(bytes) + " bytes of shared memory: " + std::strerror(code) +
                      kRemedy);
  }
  return fd;
}

void touch_pages(void* address, int64_t bytes) {
  volatile char* const at = static_cast<char*>(address);
  const int64_t page = page_bytes();
  parallel_pieces(
      bytes,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i += page) at[i] = at[i];
      },
      kBytesCopied);
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  char* const out = static_cast<char*>(to);
  const char* const in = static_cast<const char*>(from);
  parallel_pieces(bytes, [&](int64_t begin, int64_t end) { std::memcpy(out + begin, in + begin, end - begin); }, kBytesCopied);
}

}  // namespace hinterland::native
