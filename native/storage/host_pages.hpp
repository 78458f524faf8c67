// The pages of a store as a CPU's sources ask for them (include/hinterland/storage/source.hpp): one lane at a time.
#pragma once

#include <cstdint>

#include "hinterland/storage/cache.hpp"

namespace hinterland::native {

class Store;

class HostPages {
 public:
  using Lines = const HostPages&;

  explicit HostPages(Store& store) : store_(store) {}

  Lines lines() const { return *this; }
  storage::Found try_hold(storage::Page page) const;
  template <class Lanes>
  storage::Found try_hold(bool asks, storage::Page page) const {
    return asks ? try_hold(page) : storage::Found{storage::Try::kWait, -1};
  }
  template <class Lanes>
  storage::Found start(bool asks, storage::Page page) const {
    return asks ? start(page) : storage::Found{storage::Try::kWait, -1};
  }
  template <class Lanes>
  bool prefetch(bool asks, storage::Page page) const {
    return asks && prefetch(page);
  }
  void release(int64_t slot) const;
  template <int kCount>
  void release(const int32_t (&slots)[kCount]) const {
    for (const int32_t slot : slots)
      if (slot >= 0) release(slot);
  }
  const char* frame(int64_t slot) const;
  uint32_t status(int64_t slot) const;
  int line_shift() const;
  template <class Lanes>
  bool progress(uint32_t round, uint64_t until) const {
    return progress(round, until);
  }
  uint64_t until() const;
  void fail(storage::Page page, uint32_t status) const;
  bool failed() const;

  // Whether the page is being read since now; it may not be there for want of room, too.
  bool prefetch(storage::Page page) const;
  // Pages that one thread may have asked for before it reads them.
  int64_t most_ahead() const;

 private:
  storage::Found start(storage::Page page) const;
  bool progress(uint32_t round, uint64_t until) const;

  Store& store_;
};

}  // namespace hinterland::native
