// Blocks moved between files and memory without waiting for each: by io_uring, or by threads that call pread and pwrite where
// the kernel does not offer it. Between its calls nothing is held and nothing is looked at: whoever uses one calls poll() or
// wait(). Used by one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace hinterland::native {

class BlockDevice;

// `bytes` at `offset` of the open file `fd`, to or from `memory`, which stays there until the transfer has ended.
struct Transfer {
  int fd;
  bool writes;
  char* memory;
  uint32_t bytes;
  uint64_t offset;
  uint64_t user;                  // comes back with its end
  BlockDevice* device = nullptr;  // in place of `fd`: transfers are this device's own (block_device.hpp)
};

struct Ended {
  uint64_t user;
  int32_t result;  // bytes that were moved, fewer only where the file ends or the disk is full; or -errno
};

class Transfers {
 public:
  virtual ~Transfers() = default;  // waits for what is in flight

  // Takes a transfer; it is on its way once submit() or wait() has been called. False: no room now, and nothing has changed.
  virtual bool try_begin(const Transfer& transfer) = 0;
  virtual void submit() = 0;
  // What has ended, each once; returns how many.
  virtual size_t poll(std::span<Ended> to) = 0;
  // Submits, and sleeps until poll() has `enough` to give, or so long. Not if fewer are in flight.
  virtual void wait(std::chrono::nanoseconds most, unsigned enough) = 0;
  // Begun and not yet given by poll().
  virtual unsigned in_flight() const = 0;
  virtual const char* name() const = 0;

  // Memory that most transfers go to or come from: the kernel may keep hold of its pages, so that it need not look them up for
  // each.
  virtual void keep(std::span<char>) {}

 protected:
  void drain() {
    for (Ended ended[64]; in_flight() != 0; poll(ended)) wait(std::chrono::seconds(1), 1);
  }
};

enum class Engine { kBest, kUring, kThreads };

// With room for `depth` transfers in flight. kBest: io_uring, else threads. StorageError where kUring was asked for and is not
// to be had.
std::unique_ptr<Transfers> make_transfers(unsigned depth, Engine engine = Engine::kBest);

// The two; the first is null where the kernel refuses it, or this library was built without liburing.
std::unique_ptr<Transfers> make_uring(unsigned depth);
std::unique_ptr<Transfers> make_pread_pool(unsigned depth);

// Why there is no io_uring here, and what to do; empty where there is.
std::string uring_refusal();

}  // namespace hinterland::native
