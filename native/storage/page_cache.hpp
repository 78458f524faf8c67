// Pages of a store's volumes in host memory: the software cache of include/hinterland/storage over transfers between files and
// its frames. It is to the CPU what a queue pair with a controller behind it is to a GPU, without the detour.
//
// Whoever waits for a page holds none and has no ring. He sees to it that others' transfers end as well: a thread that began
// some may be at something else by now.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "hinterland/storage/cache.hpp"
#include "storage/expected.hpp"
#include "storage/page_pins.hpp"
#include "storage/volumes.hpp"

namespace hinterland::native {

class PageCache {
 public:
  using Lines = storage::Cache<storage::Belady>;
  static constexpr int64_t kWays = 8;
  // What a slot takes beside its frame: word, status, next use, and how often it is kept.
  static constexpr int64_t kSlotBytes = sizeof(uint64_t) + 3 * sizeof(uint32_t);

  PageCache(const Frames& frames, Rings& rings, Volumes& volumes);
  ~PageCache();  // What was written since the last flush is lost

  const Lines& lines() const { return lines_; }
  int line_shift() const { return line_shift_; }
  int64_t num_slots() const { return lines_.num_slots(); }
  const Rings& rings() const { return rings_; }
  bool is_open(storage::Page page) const { return volumes_.find(page) != nullptr; }

  // Holds a page, and has it read if it is not there; the same without holding it.
  storage::CacheLookup try_acquire(storage::Page page);
  storage::CacheLookup prefetch(storage::Page page);
  // Of a slot that had the page when it was last asked for.
  storage::Line seen(int64_t slot) const { return {atomic_load(words_[slot])}; }
  storage::Acquired acquire(int64_t slot, storage::Page page) {
    lines_.mark_used(slot, seen(slot));
    return storage::acquire(words_[slot], page);
  }
  // For who waits, in the given round of waiting, and holds nothing: has transfers end, and sleeps a while if none does.
  void progress(uint32_t round);
  void submit();  // what this thread began is on its way

  // The exception for a page that could not be read. What failed is read anew when it is asked for again.
  [[noreturn]] void throw_unread(storage::Page page, uint32_t status);
  // StorageError where a page of those in whose place this one may lie could not be written, to a full disk as a rule.
  void require_room(storage::Page page) const;

  // Every write that was done before is in the files, on the disk. StorageError for the first page that cannot be written.
  void flush();
  // The files of the volume at `position` were written by another way: pages that the cache has of them are read anew. What was
  // written here and not flushed, or is kept, stays.
  void forget_pages(int64_t position);
  // As often as it was opened: no more transfers of it then, and it is closed. What was not flushed is lost.
  void close(int64_t position);

  PagePins& kept() { return kept_; }
  // Batches that are known to come: the cache goes by them.
  Expected& expected() { return expected_; }
  void expect(Expected::Told told) { expected_.replace(std::move(told), words_); }

  // As StoreCounts has them.
  void count(int64_t hits, int64_t misses, int64_t cpu_ns) { hits_ += hits, misses_ += misses, cpu_ns_ += cpu_ns; }
  void add_to(StoreCounts& counts) const;

 private:
  friend class InUse;
  friend class Turn;
  class Flush;

  // The cache's device: a ring that is taken, or null, by which nothing moves; a volume that is in use, or null.
  struct Device {
    PageCache& cache;
    Ring* ring = nullptr;
    Volume* volume = nullptr;
    bool has_room(storage::Page page) const;
    bool try_read(storage::Page page, int64_t slot) { return cache.begin(*this, page, slot, false); }
    bool try_write(storage::Page page, int64_t slot) { return cache.begin(*this, page, slot, true); }
  };

  storage::CacheLookup lookup_or_issue(storage::Page page, Device& device);
  storage::CacheLookup lookup_or_issue(storage::Page page);  // by any ring that is free
  bool begin(const Device& device, storage::Page page, int64_t slot, bool writes);
  size_t end_some(Ring& ring);
  void leave(Volume& volume);
  template <class Stays>
  void drop_pages(const Volume& volume, const Stays& stays);

  const int line_shift_;
  Rings& rings_;
  Volumes& volumes_;
  std::vector<uint64_t> words_;
  std::vector<uint32_t> statuses_, sets_;
  Expected expected_;
  Lines lines_;
  PagePins kept_;
  std::atomic<int64_t> hits_{0}, misses_{0}, cpu_ns_{0};
};

}  // namespace hinterland::native
