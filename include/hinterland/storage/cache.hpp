// The software cache: frames for the pages of arrays on a device, shared by all threads of a processor (Mailthody 2022, section
// 5.3.2). Nothing is kept for a page that is not there: a page may lie in any of the ways of one set, which a hash names, and
// is looked for there; with some replacements also in another set, where it goes if its own has no empty slot and that one has.
// (Without that, a cache with twice the room of its pages has no room for 0.8 % of them, and with four times 0.01 %.)
//
// All calls return at once. A thread that gets kWait, kFull or kRefused lets go of every line that it holds, sees to it that
// the device gets on (poll its completions), and tries again; so whoever waits holds nothing that others wait for. A page that
// was not there is on its way when try_acquire() has said kStarted: it belongs to nobody until it has arrived, and whoever
// polls the completion says so.
//
// Pages get a slot under a lock that is tried, never waited for, and after another look at the set: two threads that miss the
// same page at the same time would give it two slots. (BaM's threads did: its pull request 39.) What gives way is seen while
// the lock is held, twice round a set at most, and nothing is waited for meanwhile.
//
// A set costs 4 bytes, a slot 12 (its word and the status of its last transfer that failed): 12.5 for each line of the cache.
#pragma once

#include "hinterland/core/warp.hpp"
#include "hinterland/storage/line.hpp"
#include "hinterland/storage/nvme.hpp"

namespace hinterland::storage {

enum class Try {
  kHeld,     // the page is in the slot's frame, until release()
  kStarted,  // it is being read since now, or filled by who asked
  kWait,     // it is being read, or another thread gives it a slot
  kFull,     // all slots where it may lie are in use; one of them may be on its way to the device since now
  kRefused,  // the device takes no command at present
  kFailed,   // it could not be read: status(slot)
};

struct CacheLookup {
  Try outcome;
  int64_t slot;  // of kHeld, kStarted and kFailed
};

// CLOCK: what was held since the hand last came by stays for another round, and so does what has come since then, or a page
// that is read ahead would make room for the next before it is needed.
struct ClockPolicy {
  static constexpr bool kMarksUse = true, kKnowsUses = false, kTwoSets = true;
};

// What is needed last (Belady's optimum), as far as is known what batches to come need. They have numbers that ascend. What no
// batch is known to need gives way before, by CLOCK, unless all of that is on its way or held. Whoever has a page put in a
// slot, or takes it from there, says which is the next batch to need it, in expect().
struct Belady {
  static constexpr bool kMarksUse = true, kKnowsUses = true, kTwoSets = false;

  uint32_t* next_uses;  // of each slot's page: a batch's number; one that is over where none is known. 0 at first
  uint32_t* now;        // the first batch that is not over; 1 at first

  HINTERLAND_FN void expect(int64_t slot, uint32_t batch) const { atomic_store(next_uses[slot], batch); }
  HINTERLAND_FN void expect_nothing(int64_t slot) const { expect(slot, atomic_load(*now) - 1); }
  HINTERLAND_FN bool expects(int64_t slot) const { return batches_until(slot) >= 0; }
  HINTERLAND_FN int32_t batches_until(int64_t slot) const {  // numbers may come round
    return static_cast<int32_t>(atomic_load(next_uses[slot]) - atomic_load(*now));
  }
};

// kWays: slots of a set. The words of eight are a line of a CPU's cache, or two sectors of a GPU's.
// (The replacement is a base and no member: what is [[no_unique_address]] NVRTC 13 counts twice where it finds later members.)
template <class Replacement, int64_t kWays = 8>
struct Cache : Replacement {
  static_assert(kWays % 2 == 0);

  uint64_t* words;     // Line, of each slot; 0 at first. At a multiple of 16 bytes
  uint32_t* statuses;  // of each slot's last transfer that failed
  uint32_t* sets;      // a lock, and where the hand is; 0 at first
  char* frames;
  int64_t num_sets;  // below 2^32
  int64_t line_bytes;
  Page pages = Line::kPages;  // the bits that numbers of pages take, nine or more; there is no room for others

  HINTERLAND_FN Page page_of(Line line) const { return line.page(pages); }
  HINTERLAND_FN int64_t num_slots() const { return num_sets * kWays; }
  HINTERLAND_FN char* frame(int64_t slot) const { return frames + slot * line_bytes; }
  HINTERLAND_FN int line_shift() const { return stdlib::countr_zero(static_cast<uint64_t>(line_bytes)); }
  HINTERLAND_FN uint32_t status(int64_t slot) const { return atomic_load(statuses[slot]); }

  // The device has try_read(page, slot) and try_write(page, slot), which begin to move the page to or from the frame and return
  // at once, or refuse.
  template <class Device>
  HINTERLAND_FN CacheLookup try_acquire(Page page, Device& device) const {
    const CacheLookup found = try_acquire(page);
    return found.slot < 0 ? lookup_or_issue(page, device) : found;
  }

  // Gives a page that is not there a slot and has it read there, or, not kReads, leaves that to the caller.
  template <bool kReads = true, class Device>
  HINTERLAND_FN CacheLookup lookup_or_issue(Page page, Device& device) const {
    const int64_t set = set_of(page);  // whose lock is the page's, wherever it goes
    const uint32_t open = atomic_load(sets[set]) & ~kLocked;
    if (atomic_cas_acquire(sets[set], open, open | kLocked) != open) return {Try::kWait, -1};
    uint32_t hand = open;
    Line was{0};
    int64_t slot = -1, empty = -1;
    const auto look = [&](int64_t at, Line line) {
      if (line.has(page, pages)) slot = at;
      if (Replacement::kTwoSets && empty < 0 && line.is_free() && !line.is(Line::kValid | Line::kFailed))
        empty = at, was = line;
    };
    look_at(set, look);
    if (Replacement::kTwoSets && slot < 0) look_at(other_set_of(page), look);
    const bool came = slot >= 0;
    if (!came && empty >= 0 && claim_for(empty, was, page)) slot = empty;
    if (slot < 0) slot = evict(set, page, hand, device);
    atomic_store_release(sets[set], hand);
    if (came) return {Try::kWait, slot};
    if (slot < 0) return {Try::kFull, -1};
    if (!kReads || device.try_read(page, slot)) return {Try::kStarted, slot};
    not_begun(slot, false);
    return {Try::kRefused, -1};
  }

  // As try_acquire(), of a page that is not to be read: kWait, and no slot, if it is not there.
  HINTERLAND_FN CacheLookup try_acquire(Page page) const {
    Line seen{0};
    return try_acquire_at(find(page, seen), page);
  }

  // The same for each lane that asks; all lanes call it together.
  template <class Lanes>
  HINTERLAND_FN CacheLookup try_acquire(bool asks, Page page) const {
    if constexpr (Lanes::kWidth > 1) {
      if (stdlib::popcount(Lanes::ballot(asks)) > Lanes::kWidth / 4) {
        uint32_t high;
        const int64_t slot = find_together<Lanes, false>(asks, page, high);
        return asks ? try_acquire_at(slot, page) : CacheLookup{Try::kWait, -1};
      }
    }
    return asks ? try_acquire(page) : CacheLookup{Try::kWait, -1};
  }

  // Where a page is that can be read without holding it, if is_still() says so afterwards; no slot if it is not there, or turns
  // are not counted. For each lane that asks; all lanes call it together.
  struct Glance {
    int64_t slot;
    uint32_t high;  // half of its word, in which the turn is
  };
  template <class Lanes>
  HINTERLAND_FN Glance glance(bool asks, Page page) const {
    Line seen{0};
    int64_t slot = -1;
    if (pages >> (Line::kPageBits - Line::kTurnBits) != 0) return {-1, 0};
    if constexpr (Lanes::kWidth > 1) {
      if (stdlib::popcount(Lanes::ballot(asks)) > Lanes::kWidth / 4) {
        uint32_t high = 0;
        slot = find_together<Lanes, true>(asks, page, high);
        return {slot, high};
      }
    }
    if (asks) slot = find(page, seen);
    return {seen.is(Line::kValid) ? slot : -1, static_cast<uint32_t>(seen.word >> 32)};
  }

  // What was read of it since then is the page's.
  HINTERLAND_FN bool is_still(int64_t slot, uint32_t high, Page page) const {
    const Line seen{atomic_load(words[slot])};
    if (seen.word >> 32 != high || page_of(seen) != page || !seen.is(Line::kValid)) return false;
    mark_used(slot, seen);
    return true;
  }

  HINTERLAND_FN void release(int64_t slot) const { storage::release(words[slot]); }

  // Whether who has counted himself in may hold the slot while he waits for others: of those who do, in a set, the last has seen
  // the others, so half of each set is always there for who holds nothing. (Nor may all of a GPU's lanes be counted in.)
  HINTERLAND_FN bool may_keep(int64_t slot) const {
    atomic_fence();
    int held = 0;
    bool crowded = false;
    look_at(slot / kWays, [&](int64_t at, Line line) {
      held += line.holders() != 0;
      crowded |= at == slot && line.holders() > Line::kHolders / 2;
    });
    return held <= kWays / 2 && !crowded;
  }

  HINTERLAND_FN void wrote(int64_t slot) const { storage::wrote(words[slot]); }

  // Of several slots; -1: none.
  template <int kCount>
  HINTERLAND_FN void release(const int32_t (&slots)[kCount]) const {
    storage::release(words, slots);
  }

  // The same of a page of which all will be overwritten, and which is not read for that. kStarted: the slot is the caller's,
  // who fills its frame, and then says filled().
  template <class Device>
  HINTERLAND_FN CacheLookup try_fill(Page page, Device& device) const {
    const CacheLookup found = try_acquire(page);
    return found.slot < 0 ? lookup_or_issue<false>(page, device) : found;
  }
  HINTERLAND_FN void filled(int64_t slot) const { end_read(words[slot], Read::kFilled); }

  // Has the page read if it is not there, and holds nothing: kHeld says that it is there.
  template <class Device>
  HINTERLAND_FN CacheLookup prefetch(Page page, Device& device) const {
    const CacheLookup found = look(page);
    return found.slot < 0 ? lookup_or_issue(page, device) : found;
  }

  // The same of a page that is not to be read.
  HINTERLAND_FN CacheLookup look(Page page) const {
    Line seen{0};
    const int64_t slot = find(page, seen);
    if (slot < 0) return {Try::kWait, -1};
    if (seen.is(Line::kValid)) return {Try::kHeld, slot};
    return {seen.is(Line::kFailed) ? Try::kFailed : Try::kWait, slot};
  }

  // A slot that was seen so is held by who knew where its page was: what try_acquire() says for others.
  HINTERLAND_FN void mark_used(int64_t slot, Line seen) const {
    if constexpr (Replacement::kMarksUse)
      if (!seen.is(Line::kUsed)) atomic_or(words[slot], Line::kUsed);
  }

  // Has the slot written back if that is due. kHeld: nothing is; kStarted: since now; kWait: it is being written already;
  // kFailed: that was given up, and the device may still be at it.
  template <class Device>
  HINTERLAND_FN Try write_back(int64_t slot, Device& device) const {
    const Line seen{atomic_load(words[slot])};
    if (seen.is(Line::kWriting)) return seen.is(Line::kFailed) ? Try::kFailed : Try::kWait;
    if (!seen.is(Line::kDirty)) return Try::kHeld;
    return begin(slot, seen, device) ? Try::kStarted : Try::kRefused;
  }

  // One of the kWays slots from this one on gives way to the page.
  HINTERLAND_FN int64_t first_slot(Page page) const { return set_of(page) * kWays; }

  // A slot that could give way to the page whose own page could not be written, and would not be if it were tried again; or -1.
  HINTERLAND_FN int64_t find_unwritable(Page page) const {
    for (int64_t slot = first_slot(page), end = slot + kWays; slot < end; ++slot) {
      const Line line{atomic_load(words[slot])};
      const auto last = static_cast<uint16_t>(status(slot));
      if (line.is(Line::kDirty) && line.is(Line::kFailed) && !is_success(last) && !is_retryable(last)) return slot;
    }
    return -1;
  }

  // The device has ended a transfer; `status` is 0 if it went well. A line that could not be read says so to all who ask for
  // it.
  HINTERLAND_FN void end(int64_t slot, bool writes, uint32_t status) const {
    if (status != 0) atomic_store(statuses[slot], status);
    if (writes)
      end_write(words[slot], status == 0 ? Write::kNothing : Write::kFailed);
    else
      end_read(words[slot], status == 0 ? Read::kArrived : Read::kFailed);
  }

  // A transfer takes too long: it has failed, as far as anybody can see. late() when the device is through with it all the
  // same.
  HINTERLAND_FN void give_up(int64_t slot, bool writes, uint32_t status) const {
    atomic_store(statuses[slot], status);
    writes ? give_up_write(words[slot]) : give_up_read(words[slot]);
  }
  HINTERLAND_FN void late(int64_t slot, bool writes) const {
    writes ? end_write(words[slot], Write::kNothing) : end_read(words[slot], Read::kNothing);
  }

  // What a device had said that it would begin was not begun.
  HINTERLAND_FN void not_begun(int64_t slot, bool writes) const {
    writes ? end_write(words[slot], Write::kNotBegun) : end_read(words[slot], Read::kNothing);
  }

 private:
  static constexpr uint32_t kLocked = 1, kHandStep = 2;

  HINTERLAND_FN static uint64_t mixed(Page page) {
    uint64_t mixed = (page ^ page >> 31) * 0x9e3779b97f4a7c15ull;
    return (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9ull;
  }
  HINTERLAND_FN int64_t set_of(Page page) const {
    return static_cast<int64_t>((mixed(page) >> 32) * static_cast<uint64_t>(num_sets) >> 32);
  }
  HINTERLAND_FN int64_t other_set_of(Page page) const {
    return static_cast<int64_t>((mixed(page) & 0xffffffffu) * static_cast<uint64_t>(num_sets) >> 32);
  }

  // look(slot, line) for those of a set, as they are seen: all are asked for at once.
  template <class Look>
  HINTERLAND_FN void look_at(int64_t set, const Look& look) const {
    for (int64_t slot = set * kWays; slot < (set + 1) * kWays; slot += 2) {
      uint64_t pair[2];
      atomic_load_pair(&words[slot], pair);
      for (int i = 0; i < 2; ++i) look(slot + i, Line{pair[i]});
    }
  }

  // The slot that stands for the page, as it was seen, or -1.
  HINTERLAND_FN int64_t find_in(int64_t set, Page page, Line& seen) const {
    int64_t found = -1;
    look_at(set, [&](int64_t slot, Line line) {
      if (line.has(page, pages)) found = slot, seen = line;
    });
    return found;
  }
  HINTERLAND_FN int64_t find(Page page, Line& seen) const {
    const int64_t found = find_in(set_of(page), page, seen);
    return Replacement::kTwoSets && found < 0 ? find_in(other_set_of(page), page, seen) : found;
  }

  // The same for each lane that asks, of which there are many: as many lanes as a set has ways look at the set of one of them,
  // so that the link to L2 carries each sector of it once. kGlances: only of pages that can be read; `high` is half of the word
  // then.
  template <class Lanes, bool kGlances>
  HINTERLAND_FN int64_t find_together(bool asks, Page page, [[maybe_unused]] uint32_t& high) const {
    constexpr uint64_t flags = kGlances ? Line::kValid : Line::kBusy | Line::kValid | Line::kFailed;
    constexpr int kTurns = static_cast<int>(kWays), kSets = Lanes::kWidth / kTurns;  // that are looked at in a turn
    const auto set = static_cast<uint32_t>(set_of(page));
    uint64_t seen[kTurns];
    HINTERLAND_UNROLLED
    for (int turn = 0; turn < kTurns; ++turn) {
      const int64_t first = int64_t{Lanes::broadcast(set, turn * kSets + Lanes::lane() / kTurns)} * kWays;
      seen[turn] = atomic_load(words[first + Lanes::lane() % kTurns]);
    }
    int64_t found = -1;
    HINTERLAND_UNROLLED
    for (int turn = 0; turn < kTurns; ++turn) {
      const Page wanted = Lanes::broadcast(page, turn * kSets + Lanes::lane() / kTurns);
      const uint32_t there = Lanes::ballot(page_of(Line{seen[turn]}) == wanted && Line{seen[turn]}.is(flags));
      const uint32_t own = there >> Lanes::lane() % kSets * kTurns & ((1u << kTurns) - 1);
      const int way = stdlib::countr_zero(own | 1u << (kTurns - 1));
      const bool is_own = asks && Lanes::lane() / kSets == turn && own != 0;
      if (is_own) found = set * kWays + way;
      if constexpr (kGlances) {
        const uint32_t half = Lanes::broadcast(static_cast<uint32_t>(seen[turn] >> 32), Lanes::lane() % kSets * kTurns + way);
        if (is_own) high = half;
      }
    }
    if (Replacement::kTwoSets && asks && found < 0) {  // a few at most
      Line line{0};
      found = find_in(other_set_of(page), page, line);
      if (!line.is(flags)) found = -1;
      high = static_cast<uint32_t>(line.word >> 32);
    }
    return found;
  }

  // Holds a page that was found in a slot, or, -1, was not.
  HINTERLAND_FN CacheLookup try_acquire_at(int64_t slot, Page page) const {
    if (slot < 0) return {Try::kWait, -1};
    Line seen{0};
    switch (acquire(words[slot], page, seen, pages)) {
      case Acquired::kHeld: mark_used(slot, seen); return {Try::kHeld, slot};
      case Acquired::kFailed: return {Try::kFailed, slot};
      default:  // not there yet, or not there any more
        return {Try::kWait, slot};
    }
  }

  // From the hand on, the first slot that is free and not used, which is claimed; -1 where there is none. A dirty one that is
  // met on the way is written back, so that it is free the next time. One that could not be written is tried again if no other
  // is to be had: it stays dirty, and a set of such lines would have room for no page any more.
  template <class Device>
  HINTERLAND_FN int64_t evict(int64_t set, Page page, uint32_t& hand, Device& device) const {
    bool writes = false;
    HINTERLAND_ROLLED
    for (int64_t looks = 0; looks < 2 * kWays; ++looks) {
      const int64_t slot = set * kWays + hand / kHandStep;
      hand = (hand + kHandStep) % (kHandStep * kWays);
      const Line seen{atomic_load(words[slot])};
      if (is_expected(slot, seen)) {
        continue;
      } else if (Replacement::kMarksUse && seen.is(Line::kUsed)) {
        atomic_and(words[slot], ~Line::kUsed);
      } else if (seen.is_free()) {
        if (claim_for(slot, seen, page)) return slot;
      } else if (seen.awaits_writing() && !writes && (looks >= kWays || !seen.is(Line::kFailed))) {
        writes = begin(slot, seen, device);
      }
    }
    if constexpr (Replacement::kKnowsUses)
      if (!writes) return evict_furthest(set, page, device);
    return -1;
  }

  HINTERLAND_FN bool is_expected([[maybe_unused]] int64_t slot, [[maybe_unused]] Line seen) const {
    if constexpr (Replacement::kKnowsUses) return seen.is(Line::kBusy | Line::kValid) && Replacement::expects(slot);
    return false;
  }

  HINTERLAND_FN bool claim_for(int64_t slot, Line seen, Page page) const {
    if (!claim(words[slot], seen, page, Replacement::kMarksUse ? Line::kUsed : 0, pages)) return false;
    if constexpr (Replacement::kKnowsUses) Replacement::expect_nothing(slot);
    return true;
  }

  // Of the slots whose pages are known to be needed, that whose page is needed last; within a batch pages are needed in their
  // order. While it is written back no other gives way instead, unless it could not be written.
  template <class Device>
  HINTERLAND_FN int64_t evict_furthest(int64_t set, Page page, Device& device) const {
    int64_t furthest = -1;
    uint64_t last = 0;
    Line seen{0};
    for (int64_t slot = set * kWays; slot < (set + 1) * kWays; ++slot) {
      const Line line{atomic_load(words[slot])};
      if (!is_expected(slot, line) || line.holders() != 0 || line.is(Line::kBusy)) continue;
      const uint64_t batch = static_cast<uint32_t>(Replacement::batches_until(slot)) & ((1u << (64 - Line::kPageBits)) - 1);
      const uint64_t use = line.is(Line::kFailed) ? 0 : batch << Line::kPageBits | page_of(line);
      if (furthest < 0 || use > last) furthest = slot, last = use, seen = line;
    }
    if (furthest < 0) return -1;
    if (seen.is_free()) return claim_for(furthest, seen, page) ? furthest : -1;
    if (seen.awaits_writing()) begin(furthest, seen, device);
    return -1;
  }

  // Has a dirty line written back; false if the device refuses, or the line has changed.
  template <class Device>
  HINTERLAND_FN bool begin(int64_t slot, Line seen, Device& device) const {
    if (!begin_write(words[slot], seen)) return false;
    if (device.try_write(page_of(seen), slot)) return true;
    not_begun(slot, true);
    return false;
  }
};

}  // namespace hinterland::storage
