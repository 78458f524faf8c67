// Arrays of graphs on storage as a CPU reads them, and beside them those of the same graph that lie in memory.
#pragma once

#include "hinterland/storage/source.hpp"
#include "storage/store.hpp"

namespace hinterland::native {

template <class T>
class StoredOrNot {
  using Stored = storage::Stored<T, HostPages>;
  using Near = memory::Paged<T>;

 public:
  using Element = T;

  // Elements of a run in order.
  class Reader {
   public:
    Reader(const StoredOrNot& source, int64_t begin, int64_t end)
        : near_(source.near_), is_stored_(source.is_stored()), stored_(source.stored_.reader(begin, end)) {}

    template <class... Meter>
    T read_alone(int64_t at, Meter&... meter) {
      return is_stored_ ? stored_.read_alone(at, meter...) : near_.read_alone(at, meter...);
    }

   private:
    Near near_;
    bool is_stored_;
    storage::RunReader<T, HostPages> stored_;
  };

  StoredOrNot(const memory::ArrayWords& words, int64_t count) : stored_(words, count), near_(words, count) {}

  template <int kCount, class Meter>
  void read(const int64_t (&at)[kCount], T (&to)[kCount], Meter& meter) const {
    is_stored() ? stored_.read(at, to, meter) : near_.read(at, to, meter);
  }
  template <class... Meter>
  T read_alone(int64_t at, Meter&... meter) const {
    return is_stored() ? stored_.read_alone(at, meter...) : near_.read_alone(at, meter...);
  }
  Reader reader(int64_t begin, int64_t end) const { return {*this, begin, end}; }

  template <int kCount, class Meter>
  void count_reads(const int64_t (&at)[kCount], Meter& meter) const {
    stored_.count_reads(at, meter);
  }
  template <class Meter>
  void count_run(int64_t begin, int64_t end, Meter& meter) const {
    stored_.count_run(begin, end, meter);
  }
  memory::Span span(int64_t begin, int64_t end) const { return {begin, end}; }

  // What graph/ahead.hpp asks of an array that can be read ahead.
  int64_t ask(int64_t begin, int64_t end) const {
    int64_t begun = 0;
    if (is_stored() && begin < end)
      for (storage::Page page = stored_.page_of(begin); page <= stored_.page_of(end - 1); ++page)
        begun += stored_.store->prefetch(page);
    return begun;
  }
  int64_t most_ahead() const { return is_stored() ? stored_.store->most_ahead() : 0; }

 private:
  bool is_stored() const { return stored_.store != nullptr; }

  Stored stored_;
  Near near_;
};

// The family. It counts always: what a disk takes is far more.
struct StoredSources {
  using Meter = memory::Meter;
  static constexpr bool kReadsAhead = true;
  template <class T>
  using Whole = memory::Pointer<T>;
  template <class T>
  using Large = StoredOrNot<T>;
};

}  // namespace hinterland::native
