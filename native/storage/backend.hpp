// What stands behind a controller's queues: memory, a file, or either of them with faults.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "storage/request.hpp"

namespace hinterland::native {

// One thread's way to a namespace. When it is destroyed it has given up what it had taken, and touches its memory no more.
// Times are those of whoever calls, and never go back.
class Backend {
 public:
  virtual ~Backend() = default;

  // Takes a request, which then belongs to the backend until poll() gives it back, with its status. False: not now.
  virtual bool try_begin(Request& request, uint64_t now) = 0;
  // All that was taken is on its way.
  virtual void submit() = 0;
  // What has ended, each once; returns how many.
  virtual size_t poll(uint64_t now, std::span<Request*> to) = 0;
  // True: the request will neither end nor touch memory. False: it will end by itself.
  virtual bool try_drop(Request& request) = 0;
  // Taken, and will end.
  [[nodiscard]] virtual size_t in_flight() const = 0;
  // Sleeps until something may have ended, or so many ns.
  virtual void wait(uint64_t now, uint64_t most) = 0;
};

// The blocks that commands read and write, by any number of threads.
class Namespace {
 public:
  virtual ~Namespace() = default;
  [[nodiscard]] virtual uint64_t blocks() const = 0;
  // For one thread, which has at most so many requests in flight, whose data lies in these regions.
  virtual std::unique_ptr<Backend> open(uint32_t most, std::span<const Region> regions) = 0;
  // The device is not there any more: nothing is read from queues, and nothing answered.
  [[nodiscard]] virtual bool gone() const { return false; }
};

}  // namespace hinterland::native
