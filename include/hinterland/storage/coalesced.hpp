// Elements of arrays on storage that lanes read and write as they come, in code that knows nothing of warps: each for itself,
// in branches that others do not take. Those of a warp that come together and want the same line hold it once (BaM's warp
// coalescing, Mailthody 2022, listing 5.1 and section 5.3.3).
//
// Where all lanes of a warp have come, they read as a warp does (source.hpp): whoever waits helps with the others' lines. Where
// some have, each group of lanes that want one line has a leader, who asks for it alone, and the others of the group wait for
// him. No leader waits for a line in one round while another holds his: lanes may be made to go on together after a branch.
//
// An element is known by its position, in bytes, and its size. So all types, and reads and writes, are one piece of code, and a
// kernel is compiled in half the time.
//
// kSeveral: lanes that come together may have arrays of several stores, as in (i % 2 ? a : b)[i]. Then these are groups, too.
#pragma once

#include "hinterland/storage/calls.hpp"
#include "hinterland/storage/written.hpp"

namespace hinterland::storage {

template <class Store, bool kSeveral = false>
class Coalesced {
 public:
  HINTERLAND_FN explicit Coalesced(const Store& store) : store_(store), lines_(store.lines()) {}

  // The bits of an element of `size` bytes, 1, 2, 4 or 8, at a multiple of them; what was there is overwritten, if `writes`.
  HINTERLAND_FN uint64_t access(uint64_t at, uint64_t bits, int size, bool writes) const {
    Element own{bits, size, writes};
    const uint32_t here = Warp::active();
    if (!is_whole(here)) {
      access_in_group(here, at, own);
      return own.bits;
    }
    const bool met =
        try_access(at, own, true, [&](bool asks, Page page) { return lines_.template try_acquire<Warp>(asks, page); });
    const uint32_t missed = Warp::ballot(!met);
    if (Warp::lane() == 0) store_.count_asked(size, Warp::kWidth, static_cast<uint64_t>(stdlib::popcount(missed)));
    if (missed != 0) own = wait(*this, at, own, !met);
    return own.bits;
  }

  // Has the lines of a lane's run of bytes read, as far as there is room for them now.
  HINTERLAND_FN void prefetch(uint64_t begin, uint64_t end) const {
    const bool asks = begin < end;
    Page page = asks ? page_of(begin) : 0;
    const Page past = asks ? page_of(end - 1) + 1 : 0;
    const uint32_t here = Warp::active();
    const auto leads = [&](uint32_t group) { return stdlib::countr_zero(group) == Warp::lane(); };
    if (is_whole(here)) {
      for (; Warp::any(page < past); ++page) {
        const bool own = leads(Warp::same(page < past ? page : kNoPage));
        store_.template prefetch<Warp>(page < past && own, page);
      }
      return;
    }
    if (!leads(group_of(here, asks ? page : kNoPage))) ++page;  // the leader asks for it
    for (; page < past; ++page) store_.template prefetch<Alone>(true, page);
  }

  // The line of a byte, which the caller holds since now and may keep while he waits for others; none if it is not there, or
  // too much of its set is held.
  HINTERLAND_FN HeldLine keep(uint64_t at) const {
    const Page page = page_of(at);
    const CacheLookup found = store_.try_acquire(page);
    if (found.outcome != Try::kHeld) return {};
    if (lines_.may_keep(found.slot))
      return {lines_.frame(found.slot), page << lines_.line_shift(), lines_.line_bytes, found.slot};
    lines_.release(found.slot);
    return {};
  }
  // `elements` of `size` bytes were read or written there.
  HINTERLAND_FN void let_go(int64_t slot, bool wrote, int size, uint64_t elements) const {
    store_.count_asked(size, elements, 0);
    if (wrote) lines_.wrote(slot);
    lines_.release(slot);
  }

 private:
  static constexpr Page kNoPage = ~Page{0};
  static constexpr int32_t kWaits = -1, kGivenUp = -2;

  struct Element {
    uint64_t bits;
    int size;
    bool writes;

    HINTERLAND_FN void meet(char* there) {
      if (size == 8) return meet_as<uint64_t>(there);
      if (size == 4) return meet_as<uint32_t>(there);
      if (size == 2) return meet_as<uint16_t>(there);
      meet_as<uint8_t>(there);
    }

   private:
    template <class T>
    HINTERLAND_FN void meet_as(char* there) {
      T& element = *reinterpret_cast<T*>(there);
      if (writes)
        element = static_cast<T>(bits);
      else
        bits = element;
    }
  };

  // Whether all of the warp are here, with one store: the same for all who are here.
  HINTERLAND_FN bool is_whole(uint32_t here) const {
    if constexpr (kSeveral)
      if (Warp::same(here, reinterpret_cast<uintptr_t>(&store_)) != here) return false;
    return here == Warp::kAll;
  }
  // Those of the lanes that are here with the same value and store.
  HINTERLAND_FN uint32_t group_of(uint32_t here, uint64_t value) const {
    const uint32_t group = Warp::same(here, value);
    if constexpr (kSeveral) return group & Warp::same(here, reinterpret_cast<uintptr_t>(&store_));
    return group;
  }

  HINTERLAND_FN Page page_of(uint64_t at) const { return at >> lines_.line_shift(); }
  HINTERLAND_FN char* within(int64_t slot, uint64_t at) const {
    return lines_.frame(slot) + (at & (static_cast<uint64_t>(lines_.line_bytes) - 1));
  }

  HINTERLAND_FN void leave(int32_t slot, bool wrote) const {
    const int32_t held[] = {slot};
    wrote ? Writes::leave(lines_, held) : Reads::leave(lines_, held);
  }

  // By all lanes of a warp, for those that ask: whether the element was met, since its line is there.
  template <class TryAcquire>
  HINTERLAND_FN bool try_access(uint64_t at, Element& own, bool asks, const TryAcquire& try_acquire) const {
    const Page page = asks ? page_of(at) : kNoPage;
    const int leader = stdlib::countr_zero(Warp::same(page << 1 | own.writes));
    const CacheLookup found = try_acquire(asks && leader == Warp::lane(), page);
    const int32_t held = found.outcome == Try::kHeld ? static_cast<int32_t>(found.slot) : -1;
    const int32_t slot = Warp::broadcast(held, leader);
    Warp::sync();  // who holds a line has seen that it is there
    if (asks && slot >= 0) own.meet(within(slot, at));
    Warp::sync();  // and all have been in it
    leave(held, own.writes);
    return asks && slot >= 0;
  }

  HINTERLAND_APART static Element wait(Coalesced lines, uint64_t at, Element own, bool waits) {
    const Store& store = lines.store_;
    const uint64_t until = store.until();
    for (uint32_t round = 0;; ++round) {
      waits &= !lines.try_access(at, own, waits, [&](bool asks, Page page) { return lines.template start<Warp>(asks, page); });
      if (!Warp::any(waits) || Warp::any(store.failed())) return own;
      if (waits && own.writes) Writes::waits_for(store, round, lines.page_of(at));
      if (!store.template progress<Warp>(round, until) && waits) store.fail(lines.page_of(at), kAbortedByHost);
    }
  }

  HINTERLAND_FN void access_in_group(uint32_t here, uint64_t at, Element& own) const {
    const Page page = page_of(at);
    const uint32_t group = group_of(here, page << 1 | own.writes);
    const int leader = stdlib::countr_zero(group);
    const bool leads = leader == Warp::lane();
    const uint64_t until = store_.until();
    for (uint32_t round = 0;; ++round) {
      const int32_t slot = Warp::broadcast(group, leads ? try_hold_alone(page) : kWaits, leader);
      if (leads && round == 0) {
        const auto elements = static_cast<uint64_t>(stdlib::popcount(group));
        store_.count_asked(own.size, elements, slot >= 0 ? 0 : elements);
      }
      if (slot == kGivenUp) return;
      if (slot >= 0) {
        Warp::sync(group);  // who holds the line has seen that it is there
        own.meet(within(slot, at));
        Warp::sync(group);  // and all have been in it
        if (leads) leave(slot, own.writes);
        return;
      }
      if (!leads) continue;
      if (own.writes) Writes::waits_for(store_, round, page);
      if (!store_.template progress<Alone>(round, until)) store_.fail(page, kAbortedByHost);
    }
  }

  // The slot of a page that the caller holds since now, or why he does not.
  HINTERLAND_FN int32_t try_hold_alone(Page page) const {
    CacheLookup found = store_.try_acquire(page);
    if (found.outcome != Try::kHeld) {
      if (store_.failed()) return kGivenUp;
      found = start<Alone>(true, page);
    }
    return found.outcome == Try::kHeld ? static_cast<int32_t>(found.slot) : kWaits;
  }

  // Has a page read if it is not there. If it cannot be read, that is an error of the store.
  template <class Lanes>
  HINTERLAND_FN CacheLookup start(bool asks, Page page) const {
    const CacheLookup found = store_.template start<Lanes>(asks, page);
    if (found.outcome == Try::kFailed) store_.fail(page, store_.status(found.slot));
    return found;
  }

  const Store& store_;
  typename Store::Lines lines_;
};

// Of the store at an address. Apart: what they keep would push out of registers what the kernel keeps.
template <bool kSeveral = false>
struct DeviceLines {
  const void* store;

  HINTERLAND_FN uint64_t access(uint64_t at, uint64_t bits, int size, bool writes) const {
    return access_at(store, at, bits, size, writes);
  }
  HINTERLAND_FN void prefetch(uint64_t begin, uint64_t end) const { prefetch_at(store, begin, end); }
  HINTERLAND_FN HeldLine keep(uint64_t at) const { return keep_at(store, at); }
  HINTERLAND_FN void let_go(int64_t slot, bool wrote, int size, uint64_t elements) const {
    of(store).let_go(slot, wrote, size, elements);
  }
  // An element that an array does not have is neither read nor written, and the host is told of the `first` (LeftOut) of a
  // call. Returns a place of eight bytes that nobody reads.
  HINTERLAND_APART static void* leave_out(void* first, int64_t array, int64_t at, Beside how) {
    auto& left = *static_cast<LeftOut*>(first);
    const uint64_t which = static_cast<uint64_t>(array) << 2 | static_cast<uint64_t>(how);
    if (atomic_cas(left.which, uint64_t{0}, which) == 0) left.at = at;
    return &left.nowhere;
  }

 private:
  using Lines = Coalesced<DeviceStore, kSeveral>;

  HINTERLAND_FN static Lines of(const void* store) { return Lines(*static_cast<const DeviceStore*>(store)); }
  HINTERLAND_APART static uint64_t access_at(const void* store, uint64_t at, uint64_t bits, int size, bool writes) {
    return of(store).access(at, bits, size, writes);
  }
  HINTERLAND_APART static void prefetch_at(const void* store, uint64_t begin, uint64_t end) { of(store).prefetch(begin, end); }
  HINTERLAND_APART static HeldLine keep_at(const void* store, uint64_t at) { return of(store).keep(at); }
};

}  // namespace hinterland::storage
