// Arrays on storage that kernels write as well (source.hpp), by write-allocate and write-back: a page is read first, is dirty
// then, and is written when it has to make room, or by a flush: the host has write_back() run by all warps, and flush() by one
// thread after that. The rules are those of reading: who holds a line says that it was written to (line.hpp) and lets it go,
// and nobody waits while he holds one.
//
// A page that could not be written stays dirty, and is tried again when a flush asks for it, or its set has nothing else to
// give away. It is an error of the store when a flush has tried it in vain, or when a writer finds no room for that reason.
#pragma once

#include "hinterland/storage/page_store.hpp"
#include "hinterland/storage/source.hpp"

namespace hinterland::storage {

struct FlushParams {
  const DeviceStore* store;
};

inline constexpr int kFlushThreads = 256;  // of a block

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

inline constexpr int kWriteTries = 3;  // of a write, or a flush, if to try again is worth it

// Has all that is dirty written, by `warps` warps together. What cannot be written is an error of the store when it was tried
// again; the rest is written all the same.
template <class Store>
HINTERLAND_FN void write_back(const Store& store, int64_t warp, int64_t warps) {
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
        waits = seen.is(Line::kWriting) ? !is_of_host(status) : tries == 0 || (tries < kWriteTries && is_retryable(status));
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
  int tries = 1;
  for (uint32_t round = 0;; ++round) {
    Line now{atomic_load(word)};
    if (now.is(Line::kFailed) && !now.is(Line::kWriting) && tries < kWriteTries &&
        is_retryable(static_cast<uint16_t>(store.status(slot)))) {
      atomic_store(word, (now = Line{Line::kWriting}).word);
      asked = false;
      ++tries;
    }
    if (!now.is(Line::kWriting) || now.is(Line::kFailed)) break;
    if (!asked) asked = store.device(0, Here::now() + static_cast<uint64_t>(store.timeout_ns)).try_flush(slot);
    if (!store.template progress<Alone>(round, until)) break;
  }
  const Line ended{atomic_load(word)};
  if (ended.is(Line::kFailed | Line::kWriting))
    store.fail(kWholeDevice, (ended.is(Line::kFailed) ? store.status(slot) : kAbortedByHost) | kOfWrite);
  if (!asked) atomic_store(word, uint64_t{0});
}

}  // namespace hinterland::storage
