// The pages of a store as a CPU's sources ask for them (include/hinterland/storage/source.hpp): one lane at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "storage/page_cache.hpp"

namespace hinterland::native {

class HostPages {
 public:
  using Lines = const HostPages&;

  explicit HostPages(PageCache& cache);

  // A run of readers that cannot throw. end_run() throws StorageError if a page failed since it began, or before, while others
  // went on: of runs at the same time nobody knows whose page it was. What failed is read anew when it is asked for again.
  void begin_run();
  void end_run();
  void add_to(StoreCounts& counts) const;

  Lines lines() const { return *this; }
  storage::CacheLookup try_acquire(storage::Page page) const {
    const storage::CacheLookup found = cache_.lines().try_acquire(page);
    if (found.outcome == storage::Try::kHeld) counts().holds.fetch_add(1, std::memory_order_relaxed);
    return found;
  }
  template <class Lanes>
  storage::CacheLookup try_acquire(bool asks, storage::Page page) const {
    return asks ? try_acquire(page) : storage::CacheLookup{storage::Try::kWait, -1};
  }
  template <class Lanes>
  storage::CacheLookup start(bool asks, storage::Page page) const {
    return asks ? start(page) : storage::CacheLookup{storage::Try::kWait, -1};
  }
  template <class Lanes>
  bool prefetch(bool asks, storage::Page page) const {
    return asks && prefetch(page);
  }
  void release(int64_t slot) const { cache_.lines().release(slot); }
  template <int kCount>
  void release(const int32_t (&slots)[kCount]) const {
    for (const int32_t slot : slots)
      if (slot >= 0) release(slot);
  }
  const char* frame(int64_t slot) const { return cache_.lines().frame(slot); }
  uint32_t status(int64_t slot) const { return cache_.lines().status(slot); }
  int line_shift() const { return cache_.line_shift(); }
  template <class Lanes>
  bool progress(uint32_t round, uint64_t until) const {
    return progress(round, until);
  }
  uint64_t until() const;
  void fail(storage::Page page, uint32_t status) const;
  bool failed() const { return failed_status_.load(std::memory_order_relaxed) != 0; }

  // Whether the page is being read since now; it may not be there for want of room, too.
  bool prefetch(storage::Page page) const;
  // Pages that one thread may have asked for before it reads them.
  int64_t most_ahead() const;

 private:
  storage::CacheLookup start(storage::Page page) const;
  bool progress(uint32_t round, uint64_t until) const;

  // Of the threads that have a ring in common.
  struct alignas(64) Counts {
    std::atomic<int64_t> holds{0}, started{0}, cpu_ns{0};  // pages held, reads begun; time of having them begin and end
  };
  Counts& counts() const { return counts_[static_cast<size_t>(thread_number()) % num_counts_]; }

  PageCache& cache_;
  const size_t num_counts_;
  const std::unique_ptr<Counts[]> counts_;
  mutable std::mutex mutex_;
  mutable std::atomic<uint32_t> failed_status_{0};  // of the first page that could not be read in the runs that go on
  mutable storage::Page failed_page_ = 0;
  int64_t runs_ = 0;
};

}  // namespace hinterland::native
