// The Store (source.hpp) behind queue pairs, for both processors: a cache, whose lines come through `num_channels` channels.
// All are plain words that the host fills in. Cache and queues' own words lie in the memory of the processor that reads; the
// rings, the doorbells and, where frames are not, the staged lines where the device reaches them.
//
// A warp uses the channel of its multiprocessor, and the next ones where that is full. It polls that channel every other time,
// and in between each of the others in turn, since those who asked for a line need not be there any more when it comes.
#pragma once

#include "hinterland/storage/device.hpp"

#if !HINTERLAND_ON_GPU
#include <chrono>
#include <functional>
#include <thread>
#endif

namespace hinterland::storage {

// Set in a status of 15 bits where it is that of a page that could not be written.
inline constexpr uint32_t kOfWrite = 1 << 15;

// Counters of a store for what kernels ask for, so that multiprocessors do not wait for each other's, and words of each, in a
// cache line of its own.
inline constexpr uint32_t kAskedCounters = 64, kAskedWords = 16;

// What the threads of a store share; zero at first.
struct StoreControl {
  uint64_t status;  // of the first error: its page << 16 | kOfWrite or 0 | the command's status; 0 if there was none
  int64_t padding0[15];
  uint64_t expired;  // when deadlines were last looked at
  int64_t padding1[15];
  uint64_t reads, writes;  // lines that the device was told to read and write; what it was told again is not counted again
  int64_t padding2[14];
  uint64_t asked[kAskedCounters * kAskedWords];  // see PageStore::count_asked()
};

// What the processor that runs this says, and does while it waits.
struct Here {
  // In ns.
  HINTERLAND_FN static uint64_t now() {
#if HINTERLAND_ON_GPU
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    return now;
#else
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
#endif
  }

  // A number that those have in common who share a multiprocessor; or each thread's own.
  HINTERLAND_FN static uint32_t number() {
#if HINTERLAND_ON_GPU
    uint32_t number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
#else
    return static_cast<uint32_t>(std::hash<std::thread::id>()(std::this_thread::get_id()));
#endif
  }

  // Lets others work: a GPU's warp sleeps up to 2^round ns, about a microsecond at the most; a CPU's thread gives way, and
  // after a while sleeps, so that it does not take the processor from those that it waits for.
  HINTERLAND_FN static void pause(uint32_t round) {
#if HINTERLAND_ON_GPU
    asm volatile("nanosleep.u32 %0;" ::"r"(1u << min_of(round, 10u)));
#else
    round < 32 ? std::this_thread::yield() : std::this_thread::sleep_for(std::chrono::microseconds(20));
#endif
  }
};

// `Waits` is Here, or what stands in for its pause().
template <class Waits = Here>
struct PageStore {
  using Pages = Cache<ClockPolicy>;
  using Lines = Pages;

  Pages cache;
  BlockRange blocks;
  const Channel* channels;
  int64_t num_channels;
  StoreControl* control;
  int64_t timeout_ns;  // of a command; who waits gives up after twice that
  // Pages [first, end) lie in a hole of a file that nobody else writes: they are zeros, and not read for that.
  Page hole_first, hole_end;
  uint32_t* hole_met;  // a bit for each: whether it was in the cache, from which it may have been written; 0 at first

  HINTERLAND_FN Lines lines() const { return cache; }

  // By a lane alone: holds a page that is there.
  HINTERLAND_APART CacheLookup try_acquire(Page page) const { return cache.try_acquire(page); }

  template <class Lanes>
  HINTERLAND_FN CacheLookup start(bool asks, Page page) const {
    return ask<Lanes>(asks, page, true);
  }

  // Whether it is being read since now.
  template <class Lanes>
  HINTERLAND_FN bool prefetch(bool asks, Page page) const {
    return ask<Lanes>(asks, page, false).outcome == Try::kStarted;
  }
  // That all may have asked for before anybody wants them.
  HINTERLAND_FN int64_t bytes_ahead() const { return cache.num_slots() * cache.line_bytes / 4; }

  // Of what failed there. The slot may be another page's by now: then that is not known any more.
  HINTERLAND_FN uint32_t status(int64_t slot) const {
    const auto last = static_cast<uint16_t>(cache.status(slot));
    return last != kSuccess ? last : kInternalError;
  }

  template <class Lanes>
  HINTERLAND_APART bool progress(uint32_t round, uint64_t until) const {
    const uint64_t now = Here::now();
    const bool due = Lanes::any(Lanes::lane() == 0 && is_due(now));
    const int64_t own = channel<Lanes>(round % 2 == 0 ? 0 : round / 2 + 1);
    bool ended = false, looked = true;
    HINTERLAND_ROLLED
    for (int64_t i = 0; i < (due ? num_channels : 1); ++i) {
      const auto each =
          device(static_cast<uint32_t>(own + i) % static_cast<uint32_t>(num_channels), now + static_cast<uint64_t>(timeout_ns));
      bool saw_all;
      ended |= each.template poll<Lanes>(saw_all) != 0;
      looked &= saw_all;
      if (due && saw_all) each.template expire<Lanes>(now, overdue_for());  // what had ended was seen before
    }
    if (due && !looked && Lanes::lane() == 0) atomic_store(control->expired, now - static_cast<uint64_t>(timeout_ns / 8));
    if (!ended && Lanes::lane() == 0) Waits::pause(round);
    Lanes::sync();
    return !Lanes::any(now >= until);
  }
  // The host has half of a command's time to have it aborted, and it is begun anew then.
  HINTERLAND_FN uint64_t overdue_for() const { return static_cast<uint64_t>(timeout_ns / 2); }
  HINTERLAND_FN uint64_t until() const { return Here::now() + 2 * static_cast<uint64_t>(timeout_ns); }

  // Has the slots of the lanes that ask written, as Cache::write_back() does.
  template <class Lanes>
  HINTERLAND_APART Try write_back(bool asks, int64_t slot) const {
    Requests requests;
    const Try outcome = asks ? cache.write_back(slot, requests) : Try::kHeld;
    const bool began = requests.writes;
    begin<Lanes>(requests, {outcome, slot});
    return began && requests.writes ? Try::kRefused : outcome;
  }

  // The number of no line, whose word and status cache.words and cache.statuses have all the same: those of a flush.
  HINTERLAND_FN int64_t flush_slot() const { return cache.num_slots(); }

  HINTERLAND_FN void fail(Page page, uint32_t status) const { atomic_cas(control->status, uint64_t{0}, page << 16 | status); }
  HINTERLAND_FN bool failed() const { return atomic_load(control->status) != 0; }

  // That so many elements of `size` bytes were asked for, of which `missed` were not in the cache: by a word for each size,
  // 1 << i bytes in the i-th, and one for those missed after them.
  HINTERLAND_FN void count_asked(int size, uint64_t elements, uint64_t missed) const {
    constexpr int kMissed = 4;
    uint64_t* const own = control->asked + Here::number() % kAskedCounters * kAskedWords;
    atomic_add(own[stdlib::countr_zero(static_cast<uint32_t>(size))], elements);
    if (missed != 0) atomic_add(own[kMissed], missed);
  }

  HINTERLAND_FN PageDevice<Pages> device(int64_t channel, uint64_t deadline) const {
    return {cache, channels[channel], blocks, deadline};
  }

  // Whether the page lies in the hole, and is in the cache for the first time.
  HINTERLAND_FN bool meet_in_hole(Page page) const {
    if (page < hole_first || page >= hole_end) return false;
    const uint64_t at = page - hole_first;
    const uint32_t bit = 1u << at % 32;
    return (atomic_or(hole_met[at / 32], bit) & bit) == 0;
  }

  // Begins what the cache asked for, by the first queue that has room, from the `first` on. What stays asked for was refused,
  // and the cache knows.
  template <class Lanes>
  HINTERLAND_FN CacheLookup begin(Requests& requests, CacheLookup found, int64_t first = 0) const {
    if (!Lanes::any(requests.reads || requests.writes)) return found;
    const uint32_t reading = Lanes::ballot(requests.reads), writing = Lanes::ballot(requests.writes);
    const uint64_t deadline = Here::now() + static_cast<uint64_t>(timeout_ns);
    for (int64_t i = first; i < first + num_channels && Lanes::any(requests.reads || requests.writes); ++i)
      device(channel<Lanes>(i), deadline).template begin<Lanes>(requests);
    count<Lanes>(control->reads, reading & ~Lanes::ballot(requests.reads));
    count<Lanes>(control->writes, writing & ~Lanes::ballot(requests.writes));
    if (requests.writes) cache.not_begun(requests.written_slot, true);
    if (!requests.reads) return found;
    cache.not_begun(requests.read_slot, false);
    return {Try::kRefused, -1};
  }

 private:
  // The same for all lanes: this multiprocessor's own, and those after it.
  template <class Lanes>
  HINTERLAND_FN int64_t channel(int64_t after) const {
    return (Lanes::broadcast(Here::number(), 0) + static_cast<uint32_t>(after)) % static_cast<uint32_t>(num_channels);
  }

  // Apart: the same for a warp and for a lane alone.
  HINTERLAND_APART CacheLookup lookup_or_issue(Page page, Requests& requests) const {
    return cache.lookup_or_issue(page, requests);
  }

  // Asks the device for pages that are not there.
  template <class Lanes>
  HINTERLAND_APART CacheLookup ask(bool asks, Page page, bool holds) const {
    CacheLookup found{Try::kWait, -1};
    asks &= !failed();
    if (asks && holds && page > cache.pages) fail(page, kOutOfRange);  // no line can have it
    asks &= page <= cache.pages;
    if (asks) found = holds ? try_acquire(page) : cache.look(page);
    bool misses = asks && found.slot < 0;
    for (int64_t i = 0; i < num_channels && Lanes::any(misses); ++i) {
      const QueuePair& queue = channels[channel<Lanes>(i)].queue;
      // Before a line gives way: where thousands wait for a place in the queues, all that has come would be gone before those
      // who want it come by.
      // What is asked for ahead leaves a quarter to those who wait.
      const bool has_place = queue.template reserve<Lanes>(misses, holds ? 0 : queue.submission_size / 4);
      if (!Lanes::any(has_place)) continue;
      Requests requests;
      if (has_place) found = lookup_or_issue(page, requests);
      if (hole_first != hole_end && clear_in_hole<Lanes>(requests.reads, requests.read, requests.read_slot))
        requests.reads = false;
      found = begin<Lanes>(requests, found, i);
      queue.template give_back<Lanes>(has_place);
      misses &= !has_place;
    }
    return misses ? CacheLookup{Try::kRefused, -1} : found;
  }

  // Whether the page that a lane has given a slot is there since now, without the device.
  template <class Lanes>
  HINTERLAND_APART bool clear_in_hole(bool asks, Page page, int64_t slot) const {
    const bool clears = asks && meet_in_hole(page);
    if (!Lanes::any(clears)) return false;
    Lanes::sync();  // the lane that asked has seen that the frame is its
    clear_lines<Lanes>(clears, cache.line_shift(), cache.frames, slot);
    Lanes::sync();
    if (clears) cache.end(slot, false, 0);
    return clears;
  }

  template <class Lanes>
  HINTERLAND_FN static void count(uint64_t& counter, uint32_t lanes) {
    if (lanes != 0 && Lanes::lane() == 0) atomic_add(counter, static_cast<uint64_t>(stdlib::popcount(lanes)));
  }

  // One of all who wait looks at deadlines, and that now and then: each look goes over all identifiers.
  HINTERLAND_FN bool is_due(uint64_t now) const {
    const uint64_t before = atomic_load(control->expired);
    const int64_t passed = static_cast<int64_t>(now - before);
    return passed > timeout_ns / 8 && atomic_cas(control->expired, before, now) == before;
  }
};

using DeviceStore = PageStore<>;

}  // namespace hinterland::storage
