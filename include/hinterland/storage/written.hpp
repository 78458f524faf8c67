// Arrays on storage that kernels write as well (source.hpp), by write-allocate and write-back: a page is read first, unless a warp
// overwrites all of it; it is dirty then, and written when it has to make room, or by a flush. Beside reads a warp has
//
//   write(at, values)               element at[k] becomes values[k], for all k at once; kNowhere writes nothing. All lanes together.
//                                   Of values for one element any stays.
//   write_run(begin, end, value)    elements [begin, end) become value(i). Lines that lie within are not read.
//
// and the host has write_back() run by all warps, and flush() by one thread after that. The rules are those of reading: lanes share
// a line of one of them, who holds it says that it was written to (line.hpp) and lets it go, and nobody waits while he holds one.
//
// A page that could not be written stays dirty, and is tried again when a flush asks for it, or its set has nothing else to give
// away. It is an error of the store when a flush has tried it in vain, or when a writer finds no room for that reason.
#pragma once

#include "hinterland/storage/page_store.hpp"
#include "hinterland/storage/source.hpp"

namespace hinterland::storage {

struct Writes {
  template <class T>
  HINTERLAND_FN static void begin(const T&) {}
  template <class T>
  HINTERLAND_FN static void meet(const T& own, char* there) {
    *reinterpret_cast<T*>(there) = own;
  }
  template <class Lines, int kCount>
  HINTERLAND_FN static void leave(const Lines& lines, const int32_t (&held)[kCount]) {
    for (const int32_t slot : held)
      if (slot >= 0) lines.wrote(slot);
    lines.release(held);
  }
  // Who cannot be given room because lines that make room cannot be written waits in vain.
  template <class Store>
  HINTERLAND_FN static void waits_for(const Store& store, uint32_t round, Page page) {
    constexpr uint32_t kPatience = 16;
    if (round < kPatience) return;
    const int64_t slot = store.cache.find_unwritable(page);
    if (slot >= 0) store.fail(store.cache.page_of(Line{atomic_load(store.cache.words[slot])}), store.status(slot) | kOfWrite);
  }
};

template <class T, class Store>
struct Written : Stored<T, Store> {
  using Stored<T, Store>::Stored;

  template <int kCount>
  HINTERLAND_FN void write(const int64_t (&at)[kCount], const T (&values)[kCount]) const {
    typename Base::template Rest<kCount> rest;
    for (int k = 0; k < kCount; ++k) rest.at[k] = at[k], rest.to[k] = values[k];
    rest.missing = Base::template try_access<Warp, Writes>(rest.at, rest.to);
    if (Warp::any(rest.missing != 0)) Base::template wait<Warp, Writes>(*this, rest);
  }

  template <class Value>
  HINTERLAND_FN void write_run(int64_t begin, int64_t end, const Value& value) const {
    this->for_each_line(begin, end, [&](int64_t first, int64_t next, bool all) { write_piece(first, next, all, value); });
  }

 private:
  using Base = Stored<T, Store>;

  // Elements of one line, of which they are `all`.
  template <class Value>
  HINTERLAND_FN void write_piece(int64_t begin, int64_t end, bool all, const Value& value) const {
    const Store& store = *this->store;
    const Page page = this->page_of(begin);
    const uint64_t until = store.until();
    for (uint32_t round = 0; !Warp::any(store.failed()); ++round) {
      const bool asks = Warp::lane() == 0;
      const Found found = all ? store.template fill<Warp>(asks, page) : store.template start<Warp>(asks, page);
      if (found.outcome == Try::kFailed) store.fail(page, store.status(found.slot));
      const bool fills = Warp::any(all && found.outcome == Try::kStarted);
      if (fills || Warp::any(found.outcome == Try::kHeld)) {
        const int64_t slot = Warp::broadcast(found.slot, 0);
        T* const to = reinterpret_cast<T*>(this->within(slot, begin, this->lines.line_shift()));
        Warp::sync();  // the lane that asked has seen that the frame is its
        for (int64_t i = Warp::lane(); i < end - begin; i += Warp::kWidth) to[i] = value(begin + i);
        Warp::sync();
        const int32_t held[] = {fills || Warp::lane() != 0 ? -1 : static_cast<int32_t>(slot)};
        Writes::leave(this->lines, held);
        if (fills && Warp::lane() == 0) store.filled(slot);
        return;
      }
      if (Warp::lane() == 0) Writes::waits_for(store, round, page);
      if (!store.template progress<Warp>(round, until) && Warp::lane() == 0) store.fail(page, kAbortedByHost);
    }
  }
};

// Has all that is dirty written, by `warps` warps together. What cannot be written is an error of the store when it was tried
// again, if that is worth it; the rest is written all the same.
template <class Store>
HINTERLAND_FN void write_back(const Store& store, int64_t warp, int64_t warps) {
  constexpr int kTries = 3;
  for (int64_t first = warp * Warp::kWidth; first < store.cache.num_slots(); first += warps * Warp::kWidth) {
    const int64_t slot = first + Warp::lane();
    bool waits = slot < store.cache.num_slots();
    const uint64_t until = store.until();
    int tries = 0;
    for (uint32_t round = 0; Warp::any(waits); ++round) {
      const Line seen{waits ? atomic_load(store.cache.words[slot]) : 0};
      if (seen.is(Line::kDirty) && seen.is(Line::kFailed)) {
        const auto status = static_cast<uint16_t>(store.status(slot));
        // Given up, it stays as it is until the device answers, which it may never do.
        waits = seen.is(Line::kWriting) ? !is_of_host(status) : tries == 0 || (tries < kTries && is_retryable(status));
        if (!waits) store.fail(store.cache.page_of(seen), status | kOfWrite);
      }
      const Try outcome = store.template write_back<Warp>(waits, slot);
      if (outcome == Try::kStarted) ++tries;
      if (outcome == Try::kHeld) waits = false;
      if (!Warp::any(waits) || store.template progress<Warp>(round, until)) continue;
      if (waits) store.fail(store.cache.page_of(seen), kAbortedByHost | kOfWrite);
      waits = false;
    }
  }
}

// Of an error that is no page's: what was written could not be made durable.
inline constexpr Page kWholeDevice = Line::kMostPages;

// Has the device make durable what write_back() has written; by one thread, and one at a time.
template <class Store>
HINTERLAND_FN void flush(const Store& store) {
  const int64_t slot = store.flush_slot();
  uint64_t& word = store.cache.words[slot];
  const uint64_t until = store.until();
  if (Line{atomic_load(word)}.is(Line::kWriting))
    return store.fail(kWholeDevice, kAbortedByHost | kOfWrite);  // the last has no answer yet
  atomic_store(word, uint64_t{Line::kWriting});
  bool asked = false;
  for (uint32_t round = 0;; ++round) {
    const Line now{atomic_load(word)};
    if (!now.is(Line::kWriting) || now.is(Line::kFailed)) break;
    if (!asked) asked = store.device(0, Here::now() + static_cast<uint64_t>(store.timeout_ns)).try_flush(slot);
    if (!store.template progress<Alone>(round, until)) break;
  }
  const Line ended{atomic_load(word)};
  if (ended.is(Line::kFailed | Line::kWriting))
    store.fail(kWholeDevice, (ended.is(Line::kFailed) ? store.status(slot) : kAbortedByHost) | kOfWrite);
  if (!asked) atomic_store(word, uint64_t{0});
}

// The family of arrays that kernels write (OnStorage).
template <class StoreType>
struct WrittenOnStorage : OnStorage<StoreType> {
  template <class T>
  using Large = Written<T, StoreType>;
};

}  // namespace hinterland::storage
