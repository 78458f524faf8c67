// Transfers of the threads that use a store: a ring for each, by turns where they are many.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

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

// Transfers that one thread at a time has.
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

// Nobody waits for a ring but attach(), detach() and counts(): all others take one that is free, or do without.
class Rings {
 public:
  using Devices = std::vector<std::shared_ptr<BlockDevice>>;

  Rings(int threads, unsigned depth, Engine engine);

  // Every ring reaches these devices, until detach() was called as often for each. StorageError: as if it had not been called.
  void attach(const Devices& devices);
  void detach(const Devices& devices);

  Ring& own() { return rings_[static_cast<size_t>(thread_number()) % rings_.size()]; }
  TakenRing try_take();  // this thread's own, or another that nobody has; null if there is none
  auto begin() { return rings_.begin(); }
  auto end() { return rings_.end(); }

  int size() const { return static_cast<int>(rings_.size()); }
  unsigned depth() const { return depth_; }
  const char* engine() const { return rings_[0].transfers.name(); }
  bool in_flight() const;  // anything, as far as can be seen
  void add_to(StoreCounts& counts);

 private:
  template <class Visit>
  void visit(const Visit& visit);
  void let_go(const std::shared_ptr<BlockDevice>& device);

  unsigned depth_;
  std::deque<Ring> rings_;
  std::mutex mutex_;                                     // while devices come and go
  std::map<std::shared_ptr<BlockDevice>, int> devices_;  // how often each was attached
};

}  // namespace hinterland::native
