// Transfers that one thread at a time has, and what all of a store has moved.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "storage/frames.hpp"
#include "storage/routed_transfers.hpp"

namespace hinterland::native {

// Of all volumes of a store together, since it was made. Each part adds what it knows.
struct StoreCounts {
  int64_t reads, writes;  // transfers
  int64_t bytes_read, bytes_written;
  int64_t hits, misses;    // pages that were there, and not, as they were asked for
  int64_t cpu_ns;          // of those who asked, in planned reads and writes and in flush; of sources' waits and requests
  int64_t failed_reads;    // of one copy, so that another was asked
  int64_t pinned;          // pages, at present
  int64_t expected_bytes;  // that Expected takes at present
};

// A thread of this process, numbered as it first asks.
inline int thread_number() {
  static std::atomic<int> next{0};
  static thread_local const int number = next++;
  return number;
}

struct alignas(64) Ring {
  // A number that whoever has the ring counts on, and others may look at.
  struct Counter {
    std::atomic<int64_t> value{0};
    void operator+=(int64_t more) { value.store(value.load(std::memory_order_relaxed) + more, std::memory_order_relaxed); }
    operator int64_t() const { return value.load(std::memory_order_relaxed); }
  };

  Ring(unsigned depth, Engine engine) : transfers(depth, engine) {}

  bool try_take() { return !is_taken.load(std::memory_order_relaxed) && !is_taken.exchange(true, std::memory_order_acquire); }
  void give_back() { is_taken.store(false, std::memory_order_release); }
  // Of a page that is `bytes` long.
  void begin(const Transfer& transfer, int64_t bytes, const Frames& frames);

  std::atomic<bool> is_taken{false};
  RoutedTransfers transfers;
  Counter reads, writes, bytes_read, bytes_written, failed_reads, ended;
  bool keeps = false;  // Transfers::keep() was told of all frames
};

struct GiveBack {
  void operator()(Ring* ring) const { ring->give_back(); }
};
using TakenRing = std::unique_ptr<Ring, GiveBack>;

}  // namespace hinterland::native
