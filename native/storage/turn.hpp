// What those need of a page cache who know beforehand which pages they will read or write.
#pragma once

#include <chrono>
#include <cstdint>

#include "storage/page_cache.hpp"

namespace hinterland::native {

// A volume is used for a while, and stays open meanwhile.
class InUse {
 public:
  // The volume of a page; StorageError if it was closed.
  InUse(PageCache& cache, storage::Page page) : cache_(cache), volume_(cache.volumes_.enter(page)) {}
  ~InUse() { cache_.leave(volume_); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

  Volume& volume() const { return volume_; }
  // Of a page, those that the volume has.
  int64_t bytes_in(storage::Page page) const;

 private:
  friend class Turn;
  PageCache& cache_;
  Volume& volume_;
};

// What one thread asks of a volume's pages at once, for which it takes a ring once. It waits for nothing meanwhile.
class Turn {
 public:
  explicit Turn(const InUse& used) : ring_(used.cache_.rings_.try_take()), device_{used.cache_, ring_.get(), &used.volume_} {}

  storage::CacheLookup prefetch(storage::Page page);
  // Cache::try_fill(), for a page of which all bytes_in() are written.
  storage::CacheLookup try_fill(storage::Page page);
  // Whether a transfer of the page can begin now.
  bool has_room(storage::Page page);
  // Has a slot written back, if there is room for that.
  void write_back(int64_t slot) { device_.cache.lines().write_back(slot, device_); }

 private:
  TakenRing ring_;
  PageCache::Device device_;
};

// One who waits for pages, and holds none of them meanwhile.
class Waiting {
 public:
  explicit Waiting(PageCache& cache) : cache_(cache) {}

  void got_on() { since_ = std::chrono::steady_clock::now(), round_ = 0; }
  // Whether who has no room for a page should ask why (require_room).
  bool is_long() const;
  // Has transfers end, and sleeps a while if none does. StorageError where nothing got on for too long.
  void wait();

 private:
  PageCache& cache_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  uint32_t round_ = 0;
};

}  // namespace hinterland::native
