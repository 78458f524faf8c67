// Arrays on storage that warps read and write together (storage/source.hpp): a family of sources, and BaM's ways of reading
// that no kernel of the library needs. All lanes call together:
//
//   read(at, to, meter)             to[k] becomes element at[k], for all k at once
//   read_scattered(at, to, meter)   the same for elements that lie anywhere, each lane's in lines of its own
//   read_run(begin, end, visit, meter)   visit(i, element) by the lane that has read it. A line is held once, for all that is
// wanted
//                                   of it (BaM's reference to a line that is used again, Mailthody 2022, section 5.2.2)
//   write(at, values)               element at[k] becomes values[k]; kNowhere writes nothing. Of values for one element any
// stays
//   write_run(begin, end, value)    elements [begin, end) become value(i). Lines that lie within are not read
#pragma once

#include "hinterland/storage/page_store.hpp"
#include "hinterland/storage/written.hpp"

namespace hinterland::bam {

using namespace storage;  // whose lines are read

template <class T, class Store>
struct Array : Stored<T, Store> {
  using Stored<T, Store>::Stored, Stored<T, Store>::read_alone, Stored<T, Store>::position, Stored<T, Store>::page_of;
  using Stored<T, Store>::lines;

  template <int kCount, class Meter>
  HINTERLAND_FN void read(const int64_t (&at)[kCount], T (&to)[kCount], Meter& meter) const {
    Base::read(at, to);
    this->count_reads(at, meter);
  }

  // Holding each line, two atomic operations, costs more than looking twice there; where a warp holds few lines for all its
  // lanes, the other look, for which all wait, costs more.
  template <int kCount, class Meter>
  HINTERLAND_FN void read_scattered(const int64_t (&at)[kCount], T (&to)[kCount], Meter& meter) const {
    if constexpr (kGlances)
      this->read_missing(try_glance(at, to), at, to);
    else
      Base::read(at, to);
    this->count_reads(at, meter);
  }

  template <class Visit, class Meter>
  HINTERLAND_FN void read_run(int64_t begin, int64_t end, const Visit& visit, Meter& meter) const {
    for_each_line(begin, end, [&](int64_t first, int64_t next, bool) {
      const CacheLookup found = lines.template try_acquire<Warp>(Warp::lane() == 0, page_of(first));
      int64_t slot = Warp::broadcast(found.outcome == Try::kHeld ? found.slot : -1, 0);
      if (slot < 0) slot = wait_for_line(*this, page_of(first));
      read_piece(slot, first, next, visit);
    });
    this->count_run(begin, end, meter);
  }

  template <class Meter>
  HINTERLAND_FN T read_alone(int64_t at, Meter& meter) const {
    const int64_t all[] = {at};
    this->count_reads(all, meter);
    return read_alone(at);
  }

  // For a lane alone that reads a run in order.
  HINTERLAND_FN RunReader<T, Store> reader(int64_t begin, int64_t end) const { return {*this, this->store, begin, end}; }

  template <int kCount>
  HINTERLAND_FN void write(const int64_t (&at)[kCount], const T (&values)[kCount]) const {
    typename Base::template Rest<kCount> rest;
    for (int k = 0; k < kCount; ++k) rest.at[k] = at[k], rest.to[k] = values[k];
    rest.missing = Base::template try_access<Warp, Writes>(rest.at, rest.to);
    if (Warp::any(rest.missing != 0)) Base::template wait<Warp, Writes>(*this, rest);
  }

  template <class Value>
  HINTERLAND_FN void write_run(int64_t begin, int64_t end, const Value& value) const {
    for_each_line(begin, end, [&](int64_t first, int64_t next, bool all) { write_piece(first, next, all, value); });
  }

 private:
  using Base = Stored<T, Store>;
  using Base::within;

  // Warps read elements without holding their lines, where the words say whether that went well (Cache::glance). To
  // ThreadSanitizer it is a race that a line is read while a page is put there, although what was read is not used then.
#if defined(__SANITIZE_THREAD__)
  static constexpr bool kGlances = false;
#else
  static constexpr bool kGlances = Warp::kWidth > 1 && sizeof(T) <= 8 && requires(const T& place, typename Store::Lines all) {
    all.is_still(int64_t{}, uint32_t{}, Page{});
  };
#endif

  // piece(first, next, whether they are all of a line) for the elements of each line of a run.
  template <class Piece>
  HINTERLAND_FN void for_each_line(int64_t begin, int64_t end, const Piece& piece) const {
    const int64_t line = (int64_t{1} << lines.line_shift()) / static_cast<int64_t>(sizeof(T));
    for (int64_t next, first = begin; first < end; first = next) {
      next = min_of(end, first - (static_cast<int64_t>(position(first) / sizeof(T)) & (line - 1)) + line);
      piece(first, next, next - first == line);
    }
  }

  // Reads at[k] where its line is there, by its warp, and nobody is kept from giving the slot to another page: then it was not
  // there. Returns what is missing.
  template <int kCount>
  HINTERLAND_FN uint32_t try_glance(const int64_t (&at)[kCount], T (&to)[kCount]) const {
    const int shift = lines.line_shift();
    const T* there[kCount];
    int32_t slots[kCount];
    uint32_t highs[kCount];
    Page last = Base::kNoPage;  // where this lane has found it
    int32_t slot = -1;
    uint32_t high = 0;
    for (int k = 0; k < kCount; ++k) {
      const bool asks = at[k] != memory::kNowhere;
      const Page page = asks ? page_of(at[k]) : Base::kNoPage;
      if (k == 0 || Warp::any(asks && page != last)) {  // else all are still in the lines that they have
        const int leader = stdlib::countr_zero(Warp::same(page));
        const auto found = lines.template glance<Warp>(asks && leader == Warp::lane(), page);
        slot = Warp::broadcast(static_cast<int32_t>(found.slot), leader);
        high = Warp::broadcast(found.high, leader);
        last = page;
      }
      slots[k] = asks ? slot : -1;
      highs[k] = high;
      there[k] = slots[k] < 0 ? nullptr : reinterpret_cast<const T*>(within(slot, at[k], shift));
    }
    atomic_fence_acquire();  // who has seen that a line is there sees what is in it
    for (int k = 0; k < kCount; ++k) to[k] = there[k] == nullptr ? T{} : atomic_load_passing(*there[k]);
    atomic_fence_acquire();  // and looks again after that
    uint32_t missing = 0;
    for (int k = 0; k < kCount; ++k) {
      if (at[k] == memory::kNowhere || (slots[k] >= 0 && lines.is_still(slots[k], highs[k], page_of(at[k])))) continue;
      missing |= 1u << k;
      to[k] = T{};
    }
    return missing;
  }

  // Elements of one line, which lane 0 holds; -1: they cannot be read.
  template <class Visit>
  HINTERLAND_FN void read_piece(int64_t slot, int64_t begin, int64_t end, const Visit& visit) const {
    constexpr int kInFlight = 8;
    Warp::sync();  // who holds the line has seen that it is there
    const T* const from = slot < 0 ? nullptr : reinterpret_cast<const T*>(within(slot, begin, lines.line_shift()));
    for (int64_t first = Warp::lane(); first < end - begin; first += kInFlight * Warp::kWidth) {
      T own[kInFlight];
      HINTERLAND_UNROLLED
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t i = first + k * Warp::kWidth;
        own[k] = from != nullptr && i < end - begin ? from[i] : T{};
      }
      HINTERLAND_UNROLLED
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t i = first + k * Warp::kWidth;
        if (i < end - begin) visit(begin + i, own[k]);
      }
    }
    Warp::sync();  // and all have been in it
    const int32_t held[] = {Warp::lane() == 0 ? static_cast<int32_t>(slot) : -1};
    lines.release(held);
  }

  // The slot of a page that lane 0 holds since now; -1 if it cannot be read.
  HINTERLAND_APART static int64_t wait_for_line(Array source, Page page) {
    const Store& store = *source.store;
    const uint64_t until = store.until();
    for (uint32_t round = 0; !Warp::any(store.failed()); ++round) {
      const CacheLookup found = source.template start<Warp>(Warp::lane() == 0, page);
      const int64_t slot = Warp::broadcast(found.outcome == Try::kHeld ? found.slot : -1, 0);
      if (slot >= 0) return slot;
      if (!store.template progress<Warp>(round, until) && Warp::lane() == 0) store.fail(page, kAbortedByHost);
    }
    return -1;
  }

  // Elements of one line, of which they are `all`.
  template <class Value>
  HINTERLAND_FN void write_piece(int64_t begin, int64_t end, bool all, const Value& value) const {
    const Store& store = *this->store;
    const Page page = page_of(begin);
    const uint64_t until = store.until();
    for (uint32_t round = 0; !Warp::any(store.failed()); ++round) {
      const bool asks = Warp::lane() == 0;
      const CacheLookup found = all ? fill(asks, page) : store.template start<Warp>(asks, page);
      if (found.outcome == Try::kFailed) store.fail(page, store.status(found.slot));
      const bool fills = Warp::any(all && found.outcome == Try::kStarted);
      if (fills || Warp::any(found.outcome == Try::kHeld)) {
        const int64_t slot = Warp::broadcast(found.slot, 0);
        T* const to = reinterpret_cast<T*>(within(slot, begin, lines.line_shift()));
        Warp::sync();  // the lane that asked has seen that the frame is its
        for (int64_t i = Warp::lane(); i < end - begin; i += Warp::kWidth) to[i] = value(begin + i);
        Warp::sync();
        const int32_t held[] = {fills || Warp::lane() != 0 ? -1 : static_cast<int32_t>(slot)};
        Writes::leave(lines, held);
        if (fills && Warp::lane() == 0) store.cache.filled(slot);
        return;
      }
      if (Warp::lane() == 0) Writes::waits_for(store, round, page);
      if (!store.template progress<Warp>(round, until) && Warp::lane() == 0) store.fail(page, kAbortedByHost);
    }
  }

  // As Store::start(), of a page of which all will be overwritten; kStarted: the slot is the caller's, who then says filled().
  HINTERLAND_APART CacheLookup fill(bool asks, Page page) const {
    const Store& store = *this->store;
    Requests requests;
    CacheLookup found{Try::kWait, -1};
    if (asks && !store.failed()) found = store.cache.try_fill(page, requests);
    if (found.outcome == Try::kStarted) store.meet_in_hole(page);
    return store.template begin<Warp>(requests, found);
  }
};

template <class StoreType>
struct OnStorage {
  using Meter = memory::Meter;
  template <class T>
  using Whole = memory::Pointer<T>;
  template <class T>
  using Large = Array<T, StoreType>;
};

using DeviceSources = OnStorage<DeviceStore>;

}  // namespace hinterland::bam
