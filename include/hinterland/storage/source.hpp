// Arrays on storage, as a source (memory/source.hpp): kernels read them through a cache of lines, element by element.
//
// An array lies at a byte position of the page space that it shares with others, a multiple of its element's size and not 0,
// which is what ArrayWords::home says in place of an address; ArrayWords::store is the Store. A line is a page, and a power of
// two.
//
// Nobody waits while he holds a line, so all get on however few lines there are (Mailthody 2022 has threads hold what they have
// while they wait for the rest, which deadlocks in a cache smaller than the lines in flight). A read goes round by round. In
// each, of the lanes that want the same page one asks for it, without waiting; whoever finds his line takes his element, and
// the line is released; only then does anybody wait, and lanes vote anew on who is left. The first round asks for all that is
// wanted, so that all of it is on its way before the first of it is waited for.
//
// What cannot be had ends in the Store's status word, which the host looks at. From then on what is not in the cache reads as
// zero, and nobody waits.
//
// A Store has, with `Lanes` being Warp, or Alone for a lane that the others do not wait for:
//
//   lines()                        Store::Lines: what it takes to hold lines that are there, which whoever reads keeps at hand:
//     try_acquire(page)            CacheLookup, as Cache::try_acquire() says; of a page that is not there, kWait
//     try_acquire<Lanes>(asks, page)  the same for the lanes that ask; all lanes call it together
//     release(slot), (slots)       by who holds it, or several; -1 is none
//     frame(slot), line_shift()    where its page lies; log2 of a line's bytes
//   start<Lanes>(asks, page)       the same for the lanes that ask, and has the page read; all lanes call it together
//   prefetch<Lanes>(asks, page)    has it read, and holds nothing; whether it is being read since now
//   bytes_ahead()                  of the cache that may be asked for so before anybody wants it
//   status(slot)                   why a page is not there
//   progress<Lanes>(round, until)  sees to it that transfers end, and waits a little, more in later rounds; all lanes together,
//                                  and nobody may hold a line. False: it is later than `until`
//   until()                        when a wait that begins now should end
//   fail(page, status), failed()   the status word: the first error stays
#pragma once

#include "hinterland/core/alone.hpp"
#include "hinterland/memory/source.hpp"
#include "hinterland/storage/cache.hpp"
#include "hinterland/storage/nvme.hpp"

namespace hinterland::storage {

template <class T, class Store>
class RunReader;

// What an access does with an element in its line, and with a line that nobody needs any more. (written.hpp has another.)
struct Reads {
  template <class T>
  HINTERLAND_FN static void begin(T& own) {
    own = T{};
  }
  template <class T>
  HINTERLAND_FN static void meet(T& own, const char* there) {
    own = *reinterpret_cast<const T*>(there);
  }
  template <class Lines, class Slots>
  HINTERLAND_FN static void leave(const Lines& lines, const Slots& held) {
    lines.release(held);
  }
  template <class Store>
  HINTERLAND_FN static void waits_for(const Store&, uint32_t /*round*/, Page) {}
};

// A number, or one nearer that no storage has either: positions of the farthest would pass the end of 64 bits, and be
// elements'.
HINTERLAND_FN constexpr int64_t within_reach(int64_t at) {
  constexpr int64_t kFarthest = int64_t{1} << 56;
  return max_of(-kFarthest, min_of(at, kFarthest));
}

// Where the elements of an array lie in the page space.
template <class T>
struct Positions {
  uint64_t home;  // of the first, in bytes

  HINTERLAND_FN explicit Positions(const memory::ArrayWords& words) : home(reinterpret_cast<uintptr_t>(words.home)) {}

  // As if it lay in memory: by sectors and lines of its position. What moves from storage the Store counts.
  template <int kCount, class Meter>
  HINTERLAND_FN void count_reads(const int64_t (&at)[kCount], Meter& meter) const {
    if constexpr (Meter::kCounts)
      for (int k = 0; k < kCount; ++k) meter.count(at[k] == memory::kNowhere ? nullptr : place(at[k]), false);
  }
  template <class Meter>
  HINTERLAND_FN void count_run(int64_t begin, int64_t end, Meter& meter) const {
    if constexpr (Meter::kCounts) meter.count_run(place(begin), place(end), end - begin, false);
  }

  HINTERLAND_FN memory::Span span(int64_t begin, int64_t end) const {
    if constexpr (Warp::kWidth == 1) return {begin, end};
    return {begin - static_cast<int64_t>(position(begin) % kLineBytes / sizeof(T)), end};
  }

  HINTERLAND_FN uint64_t position(int64_t at) const { return home + static_cast<uint64_t>(at) * sizeof(T); }

 private:
  HINTERLAND_FN const T* place(int64_t at) const { return reinterpret_cast<const T*>(position(at)); }
};

template <class T, class Store>
struct Stored : Positions<T> {
  using Element = T;
  using Positions<T>::position;

  const Store* store;
  typename Store::Lines lines;

  HINTERLAND_FN Stored(const Positions<T>& positions, const Store& store)
      : Positions<T>(positions), store(&store), lines(store.lines()) {}
  HINTERLAND_FN Stored(const memory::ArrayWords& words, int64_t /*count*/)
      : Stored(Positions<T>(words), *static_cast<const Store*>(words.store)) {}

  template <int kCount>
  HINTERLAND_FN void read(const int64_t (&at)[kCount], T (&to)[kCount]) const {
    read_missing(try_access<Warp>(at, to), at, to);
  }

  HINTERLAND_FN T read_alone(int64_t at) const {
    const int64_t wanted[] = {at};
    T found[1];
    if (try_access<Alone>(wanted, found) == 0) return found[0];
    return wait<Alone, Reads>(*this, Rest<1>{1, {at}, {}}).to[0];
  }

  // Has the lines of a run read, as far as there is room for them now.
  HINTERLAND_FN void prefetch(int64_t begin, int64_t end) const {
    if (begin >= end) return;
    for (Page page = page_of(begin); page <= page_of(end - 1); ++page) store->template prefetch<Alone>(true, page);
  }

  HINTERLAND_FN Page page_of(int64_t at) const { return position(at) >> lines.line_shift(); }

 protected:
  static constexpr Page kNoPage = ~Page{0};

  // What a lane has read, or has yet to write, and what of it is missing: a bit for each k.
  template <int kCount>
  struct Rest {
    uint32_t missing;
    int64_t at[kCount];
    T to[kCount];
  };

  // Has `own[k]` and element at[k] meet (Access) where its line is there. Returns what is missing.
  template <class Lanes, class Access = Reads, int kCount>
  HINTERLAND_FN uint32_t try_access(const int64_t (&at)[kCount], T (&own)[kCount]) const {
    return try_access<Lanes, Access>(at, own,
                                     [&](bool asks, Page page) { return lines.template try_acquire<Lanes>(asks, page); });
  }

  // The same, where try_acquire(asks, page) is called by all lanes together.
  template <class Lanes, class Access = Reads, int kCount, class TryAcquire>
  HINTERLAND_FN uint32_t try_access(const int64_t (&at)[kCount], T (&own)[kCount], const TryAcquire& try_acquire) const {
    const int shift = lines.line_shift();
    uint64_t there[kCount];  // addresses, or 0
    int32_t held[kCount];    // a cache has fewer than 2^31 lines, and numbers of 64 bits would not stay in registers
    Page last = kNoPage;     // whose slot this lane has
    int32_t slot = -1;
    uint64_t origin = 0;  // where the page space would begin if all of it lay as that page does
    for (int k = 0; k < kCount; ++k) {
      const bool asks = at[k] != memory::kNowhere;
      const uint64_t byte = position(at[k]);
      const Page page = asks ? byte >> shift : kNoPage;
      held[k] = -1;
      if (k == 0 || Lanes::any(asks && page != last)) {  // else all are still in the lines that they have
        const int leader = stdlib::countr_zero(Lanes::same(page));
        const CacheLookup found = try_acquire(asks && leader == Lanes::lane(), page);
        if (found.outcome == Try::kHeld) held[k] = static_cast<int32_t>(found.slot);
        slot = Lanes::broadcast(held[k], leader);
        if (slot >= 0) origin = reinterpret_cast<uintptr_t>(lines.frame(slot)) - (page << shift);
        last = page;
      }
      there[k] = asks && slot >= 0 ? origin + byte : 0;
    }
    Lanes::sync();  // who holds a line has seen that it is there
    uint32_t missing = 0;
    for (int k = 0; k < kCount; ++k) {
      Access::begin(own[k]);
      if (there[k] != 0) Access::meet(own[k], reinterpret_cast<char*>(there[k]));
      if (at[k] != memory::kNowhere && there[k] == 0) missing |= 1u << k;
    }
    Lanes::sync();  // and all have been in it
    Access::leave(lines, held);
    return missing;
  }

  // Has a page read if it is not there. If it cannot be read, that is an error of the store.
  template <class Lanes>
  HINTERLAND_FN CacheLookup start(bool asks, Page page) const {
    const CacheLookup found = store->template start<Lanes>(asks, page);
    if (found.outcome == Try::kFailed) store->fail(page, store->status(found.slot));
    return found;
  }

  HINTERLAND_FN auto* within(int64_t slot, int64_t at, int shift) const {
    return lines.frame(slot) + (position(at) & ((uint64_t{1} << shift) - 1));
  }

  template <int kCount>
  HINTERLAND_FN void read_missing(uint32_t missing, const int64_t (&at)[kCount], T (&to)[kCount]) const {
    if (!Warp::any(missing != 0)) return;
    Rest<kCount> rest{missing, {}, {}};
    for (int k = 0; k < kCount; ++k) rest.at[k] = at[k], rest.to[k] = to[k];
    rest = wait<Warp, Reads>(*this, rest);
    for (int k = 0; k < kCount; ++k) to[k] = rest.to[k];
  }

  // Reads or writes what is missing. Apart, and by value, so that what is at hand costs who reads it no memory.
  template <class Lanes, class Access, int kCount>
  HINTERLAND_APART static Rest<kCount> wait(Stored source, Rest<kCount> rest) {
    const Store& store = *source.store;
    const uint64_t until = store.until();
    for (uint32_t round = 0;; ++round) {
      HINTERLAND_ROLLED
      for (int k = 0; k < kCount; ++k) {
        const bool wants = (rest.missing >> k & 1u) != 0;
        if (!Lanes::any(wants)) continue;
        const int64_t at[] = {wants ? rest.at[k] : memory::kNowhere};
        T own[1] = {rest.to[k]};
        const auto start = [&](bool asks, Page page) { return source.template start<Lanes>(asks, page); };
        if (source.template try_access<Lanes, Access>(at, own, start) != 0 || !wants) continue;
        rest.to[k] = own[0];
        rest.missing &= ~(1u << k);
      }
      const bool waits = rest.missing != 0;
      if (!Lanes::any(waits) || Lanes::any(store.failed())) return rest;
      if (waits) Access::waits_for(store, round, source.page_of(rest.at[stdlib::countr_zero(rest.missing)]));
      if (!store.template progress<Lanes>(round, until) && waits)
        store.fail(source.page_of(rest.at[stdlib::countr_zero(rest.missing)]), kAbortedByHost);
    }
  }

  friend class RunReader<T, Store>;
};

// Reads elements of a run for a lane alone: up to kMost of them are copied at once, under one hold, and the lines that follow
// are asked for before they are wanted.
template <class T, class Store>
class RunReader {
 public:
  HINTERLAND_FN RunReader(const Positions<T>& positions, const Store* store, int64_t begin, int64_t end)
      : positions_(positions), store_(store), end_(end), asked_(begin) {}

  HINTERLAND_FN T read_alone(int64_t at) {
    if (static_cast<uint64_t>(at) - static_cast<uint64_t>(first_) >= static_cast<uint64_t>(count_)) [[unlikely]]
      fill(at);
    return held_[at - first_];
  }

  template <class Meter>
  HINTERLAND_FN T read_alone(int64_t at, Meter& meter) {
    const int64_t all[] = {at};
    positions_.count_reads(all, meter);
    return read_alone(at);
  }

 private:
  // A GPU has as many readers as lanes, and less memory near for each.
  static constexpr int64_t kMost = Warp::kWidth == 1 ? 64 : 8, kLinesAhead = 8;

  HINTERLAND_APART void fill(int64_t at) {
    const Stored<T, Store> source(positions_, *store_);
    const int64_t there = within_reach(at);
    const int shift = source.lines.line_shift();
    const int64_t line = (int64_t{1} << shift) / static_cast<int64_t>(sizeof(T));
    const int64_t within =
        static_cast<int64_t>(source.position(there) & ((uint64_t{1} << shift) - 1)) / static_cast<int64_t>(sizeof(T));
    first_ = at;
    count_ = max_of(int64_t{1}, min_of(min_of(kMost, end_ - there), line - within));  // also of what is behind the run
    bool is_there = try_fill(source, there);
    look_ahead(source, there - within + line, line);
    if (is_there) return;
    const uint64_t until = store_->until();
    for (uint32_t round = 0; !is_there; ++round) {
      if (store_->failed()) {
        for (int64_t i = 0; i < count_; ++i) held_[i] = T{};
        return;
      }
      if (!store_->template progress<Alone>(round, until)) store_->fail(source.page_of(there), kAbortedByHost);
      is_there = try_fill(source, there);
    }
  }

  // Asks for lines from `next` on, of the run, half of kLinesAhead at a time.
  HINTERLAND_FN void look_ahead(const Stored<T, Store>& source, int64_t next, int64_t line) {
    const int64_t ahead = min_of(end_, next + kLinesAhead * line);
    asked_ = max_of(asked_, next);
    if (ahead - asked_ < kLinesAhead / 2 * line && ahead < end_) return;
    source.prefetch(asked_, ahead);
    asked_ = max_of(asked_, ahead);
  }

  HINTERLAND_FN bool try_fill(const Stored<T, Store>& source, int64_t there) {
    const Page page = source.page_of(there);
    const CacheLookup found = source.template start<Alone>(true, page);
    if (found.outcome != Try::kHeld) return false;
    const auto* const from = reinterpret_cast<const T*>(source.within(found.slot, there, source.lines.line_shift()));
    for (int64_t i = 0; i < count_; ++i) held_[i] = from[i];
    source.lines.release(found.slot);
    return true;
  }

  Positions<T> positions_;
  const Store* store_;
  int64_t end_, asked_;  // all of the run before `asked_` was asked for
  int64_t first_ = 0, count_ = 0;
  T held_[kMost];
};

}  // namespace hinterland::storage
