// Elements of an array on storage that lanes read and write as they come, in code that knows nothing of warps: each for itself,
// in branches that others do not take. Those of a warp that come together and want the same line hold it once (BaM's warp
// coalescing, Mailthody 2022, listing 5.1 and section 5.3.3).
//
// Where all lanes of a warp have come, they read as a warp does (source.hpp): whoever waits helps with the others' lines. Where
// some have, each group of lanes that want one line has a leader, who asks for it alone, and the others of the group wait for
// him. No leader waits for a line in one round while another holds his: lanes may be made to go on together after a branch.
//
// kSeveral: lanes that come together may have arrays of several stores, as in (i % 2 ? a : b)[i]. Then each is for itself.
#pragma once

#include "hinterland/storage/written.hpp"

namespace hinterland::storage {

template <class T, class Store, bool kSeveral = false>
class Coalesced : Stored<T, Store> {
  using Base = Stored<T, Store>;

 public:
  using Base::Base;

  HINTERLAND_FN T read(int64_t at) const { return access<Reads>(at, T{}); }
  HINTERLAND_FN void write(int64_t at, T value) const { access<Writes>(at, value); }
  // In place of a write of an element that the array does not have.
  HINTERLAND_FN void leave_out(int64_t at) const { this->store->leave_out(this->home, at); }

  // Has the lines of a lane's run read, as far as there is room for them now.
  HINTERLAND_FN void prefetch(int64_t begin, int64_t end) const {
    const bool asks = begin < end;
    Page page = asks ? this->page_of(begin) : 0;
    const Page past = asks ? this->page_of(end - 1) + 1 : 0;
    const uint32_t here = Warp::active();
    if (!is_of_one_store(here)) {
      for (; page < past; ++page) this->store->template prefetch<Alone>(true, page);
      return;
    }
    const auto leads = [&](uint32_t group) { return stdlib::countr_zero(group) == Warp::lane(); };
    if (here == Warp::kAll) {
      for (; Warp::any(page < past); ++page) {
        const bool own = leads(Warp::same(page < past ? page : Base::kNoPage));
        this->store->template prefetch<Warp>(page < past && own, page);
      }
      return;
    }
    if (!leads(Warp::same(here, asks ? page : Base::kNoPage))) ++page;  // the leader asks for it
    for (; page < past; ++page) this->store->template prefetch<Alone>(true, page);
  }

 private:
  static constexpr int32_t kWaits = -1, kGivenUp = -2;

  template <class Access>
  HINTERLAND_FN T access(int64_t at, T own) const {
    const uint32_t here = Warp::active();
    if (!is_of_one_store(here)) return access_with<Alone, Access>(at, own);
    return here == Warp::kAll ? access_with<Warp, Access>(at, own) : access_in_group<Access>(here, at, own);
  }

  // The same for all lanes that are here.
  HINTERLAND_FN bool is_of_one_store(uint32_t here) const {
    if constexpr (!kSeveral) return true;
    return Warp::same(here, reinterpret_cast<uintptr_t>(this->store)) == here;
  }

  template <class Lanes, class Access>
  HINTERLAND_FN T access_with(int64_t at, T own) const {
    typename Base::template Rest<1> rest{0, {at}, {own}};
    rest.missing = Base::template try_access<Lanes, Access>(rest.at, rest.to);
    const uint32_t missing = Lanes::ballot(rest.missing != 0);
    if (Lanes::lane() == 0)
      this->store->template count_asked<T>(Lanes::kWidth, static_cast<uint64_t>(stdlib::popcount(missing)));
    if (missing != 0) rest = Base::template wait<Lanes, Access>(*this, rest);
    return rest.to[0];
  }

  template <class Access>
  HINTERLAND_FN T access_in_group(uint32_t here, int64_t at, T own) const {
    const Store& store = *this->store;
    const Page page = this->page_of(at);
    const uint32_t group = Warp::same(here, page);
    const int leader = stdlib::countr_zero(group);
    const bool leads = leader == Warp::lane();
    const uint64_t until = store.until();
    Access::begin(own);
    for (uint32_t round = 0;; ++round) {
      const int32_t slot = Warp::broadcast(group, leads ? try_hold_alone(page) : kWaits, leader);
      if (leads && round == 0) {
        const auto elements = static_cast<uint64_t>(stdlib::popcount(group));
        store.template count_asked<T>(elements, slot >= 0 ? 0 : elements);
      }
      if (slot == kGivenUp) return own;
      if (slot >= 0) {
        Warp::sync(group);  // who holds the line has seen that it is there
        Access::meet(own, reinterpret_cast<char*>(this->within(slot, at, this->lines.line_shift())));
        Warp::sync(group);  // and all have been in it
        const int32_t held[] = {slot};
        if (leads) Access::leave(this->lines, held);
        return own;
      }
      if (!leads) continue;
      Access::waits_for(store, round, page);
      if (!store.template progress<Alone>(round, until)) store.fail(page, kAbortedByHost);
    }
  }

  // The slot of a page that the caller holds since now, or why he does not.
  HINTERLAND_FN int32_t try_hold_alone(Page page) const {
    CacheLookup found = this->lines.try_acquire(page);
    if (found.outcome != Try::kHeld) {
      if (this->store->failed()) return kGivenUp;
      found = this->template start<Alone>(true, page);
    }
    return found.outcome == Try::kHeld ? static_cast<int32_t>(found.slot) : kWaits;
  }
};

}  // namespace hinterland::storage
