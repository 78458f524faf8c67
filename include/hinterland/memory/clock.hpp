// A fixed number of slots for the rows of a larger table. Rows that are asked for and have no slot get one, and rows that were
// not asked for lately give way: CLOCK (Corbato, "A paging experiment with the Multics system", 1968), a whole batch at a time.
//
// The slots form a ring, with a bit for each: whether its row was asked for since the hand last passed. To find room, the hand
// goes on to the next slot whose bit is clear, and clears the bits that it passes. BaM's cache does the same for single lines,
// with a counter that threads race for (Mailthody 2022, section 5.3.2). Here the row numbers of a batch are known together, and
// what threads would race for are prefix sums:
//
//   1. rows that have slots mark them; of the positions that ask for the same row without a slot, the first claims it;
//   2. claims are counted, and unmarked slots whose bit is clear, and those whose bit is set;
//   3. the n-th claim gets the n-th unmarked slot from the hand on: first those with clear bits and then, as the hand has
//      cleared them by its second lap, the others. Marked slots keep their rows, and have their bits set;
//   4. the map from rows to slots follows.
//
// So what is kept depends on the row numbers alone, on either processor and for any number of threads. The bit of a new row is
// clear: what is asked for once gives way soon, as in SIEVE (Zhang et al., NSDI 2024). SIEVE itself keeps rows in the order in
// which they came, wherever one is taken out, which takes a list; CLOCK's ring is the slots as they lie. A claim for which no
// slot is left is dropped: that row is read from the host's memory.
//
// With such a list, of all slots by when they were last asked for, the same steps are LRU: the n-th claim gets the n-th unmarked
// slot of the list, and what was marked or filled goes to its end. A batch then costs a pass over the list, 8 bytes a slot, where
// CLOCK reads two bits.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

struct ClockHand {
  int64_t at;         // the slot that the hand comes to next
  int64_t following;  // the same after the batch at hand
  int64_t admitted;   // rows that the last batch took in
};

// A ring of slots.
struct Clock {
  int64_t rows;
  int64_t capacity;  // slots, at most kMost
  int32_t* slots;    // [rows]: each row's slot or kNoSlot; during a batch also claims, which are below that
  int64_t* row_of;   // [capacity]: the row in each slot, or -1
  uint32_t* used;    // [words()]: a bit for each slot, set where its row was asked for since the hand passed
  uint32_t* marked;  // [words()]: the same for the batch at hand; 0 between batches
  ClockHand* hand;
  int32_t* order;     // [2, capacity]: of LRU, slots by when they were last asked for; `hand->at` is the list in use. Else null
  uint32_t* written;  // [words()]: a bit for each slot whose row is ahead of its table; null where none can be

  static constexpr int32_t kNoSlot = -1;
  static constexpr int64_t kSlotsInWord = 32;
  static constexpr int64_t kMost = stdlib::numeric_limits<int32_t>::max() - 1;  // slots, and positions of a batch

  HINTERLAND_FN int64_t words() const { return ceil_div(capacity, kSlotsInWord); }

  // The lowest position has the lowest claim. A batch has at most kMost positions, so claims stay below kNoSlot.
  HINTERLAND_FN static int32_t claim_of(int64_t position) {
    return static_cast<int32_t>(stdlib::numeric_limits<int32_t>::min() + position);
  }

  // What one position asks for: step 1. `row` is -1 where it names none.
  HINTERLAND_FN void ask(int64_t row, int64_t position) const {
    if (row < 0) return;
    const int32_t seen = atomic_load(slots[row]);
    if (seen >= 0) {
      uint32_t& word = marked[seen / kSlotsInWord];
      const uint32_t bit = 1u << seen % kSlotsInWord;
      if ((atomic_load(word) & bit) == 0) atomic_or(word, bit);
    } else if (seen == kNoSlot || claim_of(position) < seen) {
      atomic_min(slots[row], claim_of(position));
    }
  }

  HINTERLAND_FN static bool bit_of(uint32_t* words, int64_t slot) {
    return (atomic_load(words[slot / kSlotsInWord]) >> slot % kSlotsInWord & 1) != 0;
  }

  // Slots that the hand passes together, one word's, in the order of its way.
  struct Run {
    int64_t word;
    uint32_t all, clear, set;  // those whose rows must not stay are `clear` or `set`, by their bits
  };

  // The lap has words() + 1 runs: the hand's own word is the first run from the hand on, and the last one up to it.
  HINTERLAND_FN Run run(int64_t i) const {
    const int64_t count = words(), at = hand->at, word = (at / kSlotsInWord + i) % count;
    const int64_t within = min_of(capacity - word * kSlotsInWord, kSlotsInWord);
    const uint32_t before = (1u << at % kSlotsInWord) - 1;
    uint32_t all = Warp::kAll >> (kSlotsInWord - within);
    if (i == 0) all &= ~before;
    if (i == count) all &= before;
    const uint32_t free = all & ~atomic_load(marked[word]), bits = atomic_load(used[word]);
    return {word, all, free & ~bits, free & bits};
  }

  // What remains of a run's bits: the hand has passed some of its slots, and those that were marked are used.
  HINTERLAND_FN void pass(const Run& run, uint32_t passed) const {
    const uint32_t asked = run.all & ~run.clear & ~run.set;
    if ((run.set & passed) != 0) atomic_and(used[run.word], ~(run.set & passed));
    if (asked == 0) return;
    atomic_or(used[run.word], asked);
    atomic_and(marked[run.word], ~asked);
  }

  // Step 4 for one slot. There is no such row where row numbers have changed since they were claimed: then nobody wrote it
  // down. Returns the row that left the slot and is ahead of its table, or -1.
  HINTERLAND_FN int64_t give(int64_t slot, int64_t row) const {
    if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(rows)) return -1;
    const int64_t before = row_of[slot];
    const uint32_t bit = 1u << slot % kSlotsInWord;
    const bool ahead = written != nullptr && bit_of(written, slot);
    if (ahead) atomic_and(written[slot / kSlotsInWord], ~bit);
    if (before >= 0) slots[before] = kNoSlot;
    row_of[slot] = row;
    slots[row] = static_cast<int32_t>(slot);
    return ahead ? before : -1;
  }
};

// Items cut into chunks of the same size, so that each chunk's place in a sum over all of them is a short sum over chunks.
struct Chunks {
  static constexpr int64_t kMost = kMostChunks;

  int64_t items, size, count;

  HINTERLAND_FN explicit Chunks(int64_t items)
      : items(items), size(max_of(ceil_div(items, kMost), kLeastOfChunk)), count(ceil_div(items, size)) {}
  HINTERLAND_FN int64_t begin(int64_t chunk) const { return chunk * size; }
  HINTERLAND_FN int64_t end(int64_t chunk) const { return min_of((chunk + 1) * size, items); }
};

// What one batch asks for, and its scratch memory.
struct ClockBatch {
  const void* indices;
  int64_t index_bytes;
  int64_t count;          // at most Clock::kMost
  int64_t* filled;        // [min(count, capacity)]: the slots that get new rows, in the order of the claims
  int64_t* claimed;       // the same: those rows
  int64_t* sums;          // [3, Chunks::kMost]: claims, clear slots and set ones of each chunk
  int64_t* left;          // as filled: what Clock::give() returned; or null
  int32_t* places;        // [count]: the slot in which each row lies, kElsewhere, or for the n-th claim kClaim - n; or null
  const int64_t* bounds;  // of several tables, whose rows are numbered through: the first of each, and how many in all; or null
  int64_t each;           // positions of each of them

  static constexpr int32_t kElsewhere = -1, kClaim = -2;

  HINTERLAND_FN int64_t number(int64_t position) const { return read_index(indices, index_bytes, position); }
  HINTERLAND_FN int64_t table(int64_t position) const { return static_cast<uint32_t>(position) / static_cast<uint32_t>(each); }
  HINTERLAND_FN int64_t row(int64_t position, int64_t rows) const {
    if (bounds == nullptr) return resolve_index(number(position), rows);
    const int64_t* const own = bounds + table(position);
    const int64_t row = resolve_index(number(position), own[1] - own[0]);
    return row < 0 ? -1 : own[0] + row;
  }
};

// What a GPU's team and the hand keep, one behind the other.
struct ClockState {
  TeamControl control;
  ClockHand hand;
};

// What is given to those who admit rows.
struct AdmitParams {
  Clock clock;
  ClockBatch batch;
  TeamControl* control;  // of a GPU: zero
};

// A gather to the slots that were filled: position s gets row row_of[s], and only the filled positions are visited. How many
// there are the hand knows.
struct FillParams {
  RowCopy<OneRange> copy;
  const ClockHand* hand;

  HINTERLAND_FN RowCopy<OneRange> filled() const {
    RowCopy<OneRange> all = copy;
    all.count = hand->admitted;
    return all;
  }
};

// The sum of the first `count`, the same in each lane.
HINTERLAND_FN int64_t sum_of_chunks(const int64_t* sums, int64_t count) {
  int64_t sum = 0;
  for (int64_t from = Warp::lane(); from < count; from += kSumsAhead * Warp::kWidth) {
    int64_t some[kSumsAhead];
    HINTERLAND_UNROLLED
    for (int k = 0; k < kSumsAhead; ++k) some[k] = from + k * Warp::kWidth < count ? sums[from + k * Warp::kWidth] : 0;
    HINTERLAND_UNROLLED
    for (int k = 0; k < kSumsAhead; ++k) sum += some[k];
  }
  return Warp::sum(sum);
}

// The slots of `run` that are in `bits`, in their order, as the (at)-th slots to fill and so on, as far as they are needed.
// Returns the bit of the last one needed, or 0 if that is in another run.
HINTERLAND_FN uint32_t fill_slots(const Clock& clock, const ClockBatch& batch, const Clock::Run& run, uint32_t bits, int64_t at,
                                  int64_t admitted) {
  for (; bits != 0 && at < admitted; bits &= bits - 1, ++at) {
    const int64_t slot = run.word * Clock::kSlotsInWord + stdlib::countr_zero(bits);
    batch.filled[at] = slot;
    if (at + 1 < admitted) continue;
    clock.hand->following = slot + 1 < clock.capacity ? slot + 1 : 0;
    return bits & ~(bits - 1);
  }
  return 0;
}

// Who admits a batch: steps 2 and 3 for chunks of its positions, and of the hand's lap. Lanes of a warp call these together.
struct Admission {
  Clock clock;
  ClockBatch batch;
  Chunks asked, lap;
  int64_t *claims, *clear, *set;  // sums of the chunks

  HINTERLAND_FN Admission(const Clock& clock, const ClockBatch& batch)
      : clock(clock),
        batch(batch),
        asked(batch.count),
        lap(clock.order == nullptr ? clock.words() + 1 : clock.capacity),
        claims(batch.sums),
        clear(claims + Chunks::kMost),
        set(clear + Chunks::kMost) {}

  static constexpr int64_t kStride = kAsksAhead * Warp::kWidth;

  // What is found of several positions, one to a lane each time: all are looked up before the first is needed.
  struct Found {
    int64_t position[kAsksAhead];
    int64_t row[kAsksAhead];
    int32_t slot[kAsksAhead];

    HINTERLAND_FN bool claims(int k) const { return row[k] >= 0 && slot[k] == Clock::claim_of(position[k]); }
  };
  HINTERLAND_FN Found look_up(int64_t from, int64_t end) const {
    Found found;
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      found.position[k] = from + k * Warp::kWidth + Warp::lane();
      found.row[k] = found.position[k] < end ? batch.row(found.position[k], clock.rows) : -1;
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k)
      found.slot[k] = found.row[k] < 0 ? Clock::kNoSlot : atomic_load(clock.slots[found.row[k]]);
    return found;
  }

  HINTERLAND_FN void count_claims(int64_t chunk) const {
    int64_t found = 0;
    for (int64_t from = asked.begin(chunk); from < asked.end(chunk); from += kStride) {
      const Found some = look_up(from, asked.end(chunk));
      HINTERLAND_UNROLLED
      for (int k = 0; k < kAsksAhead; ++k) found += some.claims(k) ? 1 : 0;
    }
    found = Warp::sum(found);
    if (Warp::lane() == 0) claims[chunk] = found;
  }

  // The same of slots in the list of LRU: which there are, and whether they are unmarked.
  struct Listed {
    int32_t slot[kAsksAhead];
    bool free[kAsksAhead];
  };
  HINTERLAND_FN int32_t* list(int64_t which) const { return clock.order + which * clock.capacity; }
  HINTERLAND_FN Listed unmarked(int64_t from, int64_t end) const {
    const int32_t* const now = list(clock.hand->at);
    Listed found;
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      const int64_t i = from + k * Warp::kWidth + Warp::lane();
      found.slot[k] = i < end ? now[i] : -1;
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) found.free[k] = found.slot[k] >= 0 && !Clock::bit_of(clock.marked, found.slot[k]);
    return found;
  }

  HINTERLAND_FN void count_slots(int64_t chunk) const {
    int64_t first = 0, second = 0;
    for (int64_t from = lap.begin(chunk); clock.order != nullptr && from < lap.end(chunk); from += kStride) {
      const Listed some = unmarked(from, lap.end(chunk));
      HINTERLAND_UNROLLED
      for (int k = 0; k < kAsksAhead; ++k) first += some.free[k] ? 1 : 0;
    }
    for (int64_t i = lap.begin(chunk) + Warp::lane(); clock.order == nullptr && i < lap.end(chunk); i += Warp::kWidth) {
      const Clock::Run run = clock.run(i);
      first += stdlib::popcount(run.clear);
      second += stdlib::popcount(run.set);
    }
    first = Warp::sum(first);
    second = Warp::sum(second);
    if (Warp::lane() == 0) clear[chunk] = first, set[chunk] = second;
  }

  HINTERLAND_FN void number_claims(int64_t chunk, int64_t admitted) const {
    int64_t at = sum_of_chunks(claims, chunk);
    for (int64_t from = asked.begin(chunk); from < asked.end(chunk); from += kStride) {
      const Found some = look_up(from, asked.end(chunk));
      HINTERLAND_UNROLLED
      for (int k = 0; k < kAsksAhead; ++k) {
        const bool claimed = some.claims(k);
        const uint32_t votes = Warp::ballot(claimed);
        const int64_t mine = at + stdlib::popcount(votes & ((1u << Warp::lane()) - 1));
        if (claimed && mine < admitted) batch.claimed[mine] = some.row[k];
        if (claimed && mine >= admitted) atomic_store(clock.slots[some.row[k]], Clock::kNoSlot);
        if (batch.places != nullptr && some.position[k] < asked.end(chunk)) {
          const bool taken = claimed && mine < admitted;
          batch.places[some.position[k]] =
              taken ? static_cast<int32_t>(ClockBatch::kClaim - mine) : max_of(some.slot[k], ClockBatch::kElsewhere);
        }
        at += stdlib::popcount(votes);
      }
    }
  }

  // `first_lap`: slots that the hand finds in its first lap.
  HINTERLAND_FN void turn_hand(int64_t chunk, int64_t admitted, int64_t first_lap) const {
    int64_t at = sum_of_chunks(clear, chunk), later = first_lap + sum_of_chunks(set, chunk);
    for (int64_t from = lap.begin(chunk); from < lap.end(chunk); from += Warp::kWidth) {
      const int64_t i = from + Warp::lane();
      const Clock::Run run = i < lap.end(chunk) ? clock.run(i) : Clock::Run{};
      const int64_t in_first = stdlib::popcount(run.clear), in_second = stdlib::popcount(run.set);
      const int64_t mine = at + Warp::exclusive_sum(in_first);
      const uint32_t last = fill_slots(clock, batch, run, run.clear, mine, admitted);
      fill_slots(clock, batch, run, run.set, later + Warp::exclusive_sum(in_second), admitted);
      // The hand passes this run whole, up to the last slot that it fills, or not at all.
      const uint32_t passed = admitted > first_lap ? run.all : last != 0 ? last | (last - 1) : mine < admitted ? run.all : 0;
      clock.pass(run, passed);
      at += Warp::sum(in_first);
      later += Warp::sum(in_second);
    }
  }

  // The same of LRU, and the other list: `room` unmarked slots without those that are filled, and then what was asked for now.
  HINTERLAND_FN void renew_order(int64_t chunk, int64_t admitted, int64_t room) const {
    int32_t* const next = list(1 - clock.hand->at);
    int64_t at = sum_of_chunks(clear, chunk);
    for (int64_t from = lap.begin(chunk); from < lap.end(chunk); from += kStride) {
      const Listed some = unmarked(from, lap.end(chunk));
      HINTERLAND_UNROLLED
      for (int k = 0; k < kAsksAhead; ++k) {
        const bool free = some.free[k];
        const uint32_t votes = Warp::ballot(free);
        const int64_t before = at + stdlib::popcount(votes & ((1u << Warp::lane()) - 1));  // unmarked slots
        if (free && before < admitted) batch.filled[before] = some.slot[k];
        const int64_t stay = max_of(before - admitted, int64_t{0});  // of them
        const int64_t i = from + k * Warp::kWidth + Warp::lane();
        if (some.slot[k] >= 0) next[free && before >= admitted ? stay : room - admitted + i - stay] = some.slot[k];
        at += stdlib::popcount(votes);
      }
    }
  }
};

// Gives slots to the rows of a batch. The rows themselves are copied afterwards: to hand->admitted slots, those in `filled`.
// Called by all threads of a team, for at least one slot and one position.
template <class Team>
HINTERLAND_FN void admit(Team& team, const Clock& clock, const ClockBatch& batch) {
  const Admission admission(clock, batch);
  const int64_t asked = admission.asked.count, lap = admission.lap.count;

  for_each(team, batch.count, [&](int64_t position) { clock.ask(batch.row(position, clock.rows), position); });

  team.dynamic_for(asked + lap, [&](const auto& items) {
    items([&](int64_t item) { item < asked ? admission.count_claims(item) : admission.count_slots(item - asked); });
  });

  const int64_t first_lap = sum_of_chunks(admission.clear, lap), room = first_lap + sum_of_chunks(admission.set, lap);
  const int64_t admitted = min_of(sum_of_chunks(admission.claims, asked), room);

  team.dynamic_for(asked + lap, [&](const auto& items) {
    items([&](int64_t item) {
      if (item < asked)
        admission.number_claims(item, admitted);
      else if (clock.order != nullptr)
        admission.renew_order(item - asked, admitted, room);
      else
        admission.turn_hand(item - asked, admitted, first_lap);
    });
  });

  team.single([&] {
    if (clock.order != nullptr)
      clock.hand->at ^= 1;
    else if (admitted > 0)
      clock.hand->at = clock.hand->following;
    clock.hand->admitted = admitted;
  });
  if (clock.order != nullptr) for_each(team, clock.words(), [&](int64_t word) { clock.marked[word] = 0; });
  for_each(team, admitted, [&](int64_t i) {
    const int64_t left = clock.give(batch.filled[i], batch.claimed[i]);
    if (batch.left != nullptr) batch.left[i] = left;
  });
}

}  // namespace hinterland::memory
