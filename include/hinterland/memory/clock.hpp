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
// slot of the list, and what was marked or filled goes to its end (SlotLog). Bits are then of places in the list.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/memory/gather.hpp"
#include "hinterland/memory/requested.hpp"

namespace hinterland::memory {

struct ClockHand {
  int64_t at;         // the slot that the hand comes to next
  int64_t following;  // the same after the batch at hand
  int64_t admitted;   // rows that the last batch took in
};

// Of LRU: slots by when they were last asked for, each at one place. What a batch asks for or fills leaves its place empty, and
// goes behind the last one, so that a batch costs what it names, and two bits a place. Where places run out, all move up.
struct SlotLog {
  int64_t places;     // more than slots, at most Clock::kMost; 0: CLOCK
  int32_t* slot_at;   // [places], of those that are taken
  int32_t* place_of;  // [capacity]
  uint32_t* before;   // [words()]: where all move up, slots that stay in places before those of each word
};

// A ring of slots, or with a log the slots in their order there.
struct Clock {
  int64_t rows;
  int64_t capacity;  // slots, at most kMost
  int32_t* slots;    // [rows]: each row's slot or kNoSlot; during a batch also claims, which are below that
  int64_t* row_of;   // [capacity]: the row in each slot, or -1
  uint32_t* used;    // [words()]: a bit for each slot, set where its row was asked for since the hand passed; or for each
                     // place of a log, set where a slot is
  uint32_t* marked;  // [words()]: the same of those that the batch at hand asked for; 0 between batches
  ClockHand* hand;
  uint32_t* written;  // a bit for each slot whose row is ahead of its table; null where none can be
  SlotLog log;        // `hand->at` is the first place behind the last slot

  static constexpr int64_t kSlotsInWord = 32;
  static constexpr int64_t kMost = stdlib::numeric_limits<int32_t>::max() - 1;  // slots, and positions of a batch

  HINTERLAND_FN bool lru() const { return log.places > 0; }
  HINTERLAND_FN int64_t words() const { return ceil_div(lru() ? log.places : capacity, kSlotsInWord); }

  // Where a slot's bits are.
  HINTERLAND_FN int32_t bit_at(int32_t slot) const { return lru() ? log.place_of[slot] : slot; }

  HINTERLAND_FN static bool bit_of(uint32_t* words, int64_t slot) {
    return (atomic_load(words[slot / kSlotsInWord]) >> slot % kSlotsInWord & 1) != 0;
  }

  // Slots that the hand passes together, one word's, in the order of its way.
  struct Run {
    int64_t word;
    uint32_t all, clear, set;  // those whose rows must not stay are `clear` or `set`, by their bits; of a log `set` is marked
  };

  // The lap has words() + 1 runs: the hand's own word is the first run from the hand on, and the last one up to it. Of a log it
  // has those words that slots are in.
  HINTERLAND_FN int64_t runs() const { return lru() ? ceil_div(hand->at, kSlotsInWord) : words() + 1; }
  HINTERLAND_FN Run run(int64_t i) const {
    if (lru()) {
      const uint32_t all = atomic_load(used[i]), asked = atomic_load(marked[i]);
      return {i, all, all & ~asked, all & asked};
    }
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

  // The place to which a slot of the log goes that stays where all move up.
  HINTERLAND_FN int64_t moved_up(int64_t place) const {
    const int64_t word = place / kSlotsInWord;
    return log.before[word] + stdlib::popcount(used[word] & ((1u << place % kSlotsInWord) - 1));
  }

  // The first `count` bits of a word from bit `first` on, or as many as there are.
  HINTERLAND_FN static uint32_t bits(int64_t first, int64_t count) {
    if (count <= 0) return 0;
    return Warp::kAll >> (kSlotsInWord - min_of(count, kSlotsInWord - first)) << first;
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
  const void* indices;  // null: row numbers are positions, and who asks has asked (RequestedRows)
  int64_t index_bytes;
  int64_t count;          // at most Clock::kMost
  int64_t* filled;        // [min(count, capacity)]: the slots that get new rows, in the order of the claims
  int64_t* claimed;       // the same: those rows
  int64_t* sums;          // [3, Chunks::kMost]: claims, clear slots and set ones of each chunk
  int64_t* moved;         // of a log, as filled: places that are left for the end; else null
  int64_t* left;          // as filled: what Clock::give() returned; or null
  int32_t* places;        // [count]: the slot in which each row lies, kElsewhere, or for the n-th claim kClaim - n; or null
  const int64_t* bounds;  // of several tables, whose rows are numbered through: the first of each, and how many in all; or null
  int64_t each;           // positions of each of them

  static constexpr int32_t kElsewhere = -1, kClaim = -2;

  HINTERLAND_FN int64_t number(int64_t position) const {
    return indices == nullptr ? position : read_index(indices, index_bytes, position);
  }
  HINTERLAND_FN int64_t table(int64_t position) const { return static_cast<uint32_t>(position) / static_cast<uint32_t>(each); }
  // The row that a position's number is; -1: none.
  HINTERLAND_FN int64_t row(int64_t number, int64_t position, int64_t rows) const {
    if (bounds == nullptr) return resolve_index(number, rows);
    const int64_t* const own = bounds + table(position);
    const int64_t row = resolve_index(number, own[1] - own[0]);
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

// body(i) for each i of [0, count), by all lanes of a warp together.
template <class Team, class Body>
HINTERLAND_FN void for_each_warp(Team& team, int64_t count, const Body& body) {
  team.static_for(count, [&](const auto& ranges) {
    ranges([&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) body(i);
    });
  });
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
        lap(clock.runs()),
        claims(batch.sums),
        clear(claims + Chunks::kMost),
        set(clear + Chunks::kMost) {}

  static constexpr int64_t kStride = kAsksAhead * Warp::kWidth;

  // What is found of several positions, one to a lane each time: all are looked up before the first is needed.
  struct Found {
    int64_t position[kAsksAhead];
    int64_t row[kAsksAhead];
    int32_t slot[kAsksAhead];

    HINTERLAND_FN bool claims(int k) const { return row[k] >= 0 && slot[k] == claim_of(position[k]); }
  };
  HINTERLAND_FN Found look_up(int64_t from, int64_t end) const {
    Found found;
    int64_t number[kAsksAhead];
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      found.position[k] = from + k * Warp::kWidth + Warp::lane();
      number[k] = batch.number(min_of(found.position[k], end - 1));
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k)
      found.row[k] = found.position[k] < end ? batch.row(number[k], found.position[k], clock.rows) : -1;
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) found.slot[k] = found.row[k] < 0 ? kNoSlot : atomic_load(clock.slots[found.row[k]]);
    return found;
  }

  // What positions from `from` on ask for: step 1.
  HINTERLAND_FN void ask(int64_t from) const {
    const Found some = look_up(from, batch.count);
    int32_t at[kAsksAhead];
    bool marked[kAsksAhead];
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) at[k] = some.slot[k] < 0 ? -1 : clock.bit_at(some.slot[k]);
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) marked[k] = at[k] >= 0 && Clock::bit_of(clock.marked, at[k]);
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      const int32_t seen = some.slot[k], claim = claim_of(some.position[k]);
      if (at[k] >= 0 && !marked[k])
        atomic_or(clock.marked[at[k] / Clock::kSlotsInWord], 1u << at[k] % Clock::kSlotsInWord);
      else if (some.row[k] >= 0 && at[k] < 0 && (seen == kNoSlot || claim < seen))
        atomic_min(clock.slots[some.row[k]], claim);
    }
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

  HINTERLAND_FN void count_slots(int64_t chunk) const {
    int64_t first = 0, second = 0;
    for (int64_t i = lap.begin(chunk) + Warp::lane(); i < lap.end(chunk); i += Warp::kWidth) {
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
        if (claimed && mine >= admitted) atomic_store(clock.slots[some.row[k]], kNoSlot);
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

  // The same of a log: the first unmarked slots are filled, and with those that were asked for they leave their places.
  HINTERLAND_FN void leave_places(int64_t chunk, int64_t admitted, bool move_up) const {
    int64_t at = sum_of_chunks(clear, chunk), later = sum_of_chunks(set, chunk);
    for (int64_t from = lap.begin(chunk); from < lap.end(chunk); from += Warp::kWidth) {
      const int64_t i = from + Warp::lane();
      const Clock::Run run = i < lap.end(chunk) ? clock.run(i) : Clock::Run{};
      const int64_t in_clear = stdlib::popcount(run.clear), in_set = stdlib::popcount(run.set);
      int64_t unmarked = at + Warp::exclusive_sum(in_clear), asked = later + Warp::exclusive_sum(in_set);  // before this one
      if (move_up && i < lap.end(chunk)) clock.log.before[i] = static_cast<uint32_t>(max_of(unmarked - admitted, int64_t{0}));
      uint32_t left = 0;
      for (uint32_t bits = unmarked < admitted ? run.all : run.set; bits != 0; bits &= bits - 1) {
        const uint32_t bit = bits & ~(bits - 1);
        const bool fills = (run.clear & bit) != 0;
        if (fills && unmarked >= admitted) continue;
        const int64_t place = i * Clock::kSlotsInWord + stdlib::countr_zero(bits);
        batch.moved[asked + min_of(unmarked, admitted)] = place;
        if (fills) batch.filled[unmarked] = place;
        (fills ? unmarked : asked) += 1;
        left |= bit;
      }
      if (left != 0) clock.used[i] = run.all & ~left;
      if (run.set != 0) clock.marked[i] = 0;
      at += Warp::sum(in_clear);
      later += Warp::sum(in_set);
    }
  }

  // Step 4 for the n-th claim.
  HINTERLAND_FN void give(int64_t claim) const {
    int64_t& slot = batch.filled[claim];
    if (clock.lru()) slot = clock.log.slot_at[slot];
    const int64_t left = clock.give(slot, batch.claimed[claim]);
    if (batch.left != nullptr) batch.left[claim] = left;
  }

  // Puts slots that left their places, from the `from`-th of `moved` on, to the places from `end` on. Where all move up it only
  // notes that, below 0: other slots may still be there.
  HINTERLAND_FN void append(int64_t from, int64_t moved, int64_t end, bool move_up) const {
    const SlotLog& log = clock.log;
    int32_t slot[kAsksAhead];
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      const int64_t i = from + k * Warp::kWidth + Warp::lane();
      slot[k] = i < moved ? log.slot_at[batch.moved[i]] : kNoSlot;
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      if (slot[k] < 0) continue;
      const int64_t i = from + k * Warp::kWidth + Warp::lane(), place = end + i, in_word = place % Clock::kSlotsInWord;
      log.place_of[slot[k]] = static_cast<int32_t>(move_up ? -1 - place : place);
      if (move_up) continue;
      log.slot_at[place] = slot[k];
      if (i == 0 || in_word == 0) clock.used[place / Clock::kSlotsInWord] |= Clock::bits(in_word, moved - i);
    }
  }

  HINTERLAND_FN void move_up(int64_t from) const {
    const SlotLog& log = clock.log;
    int64_t place[kAsksAhead];
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      const int64_t slot = from + k * Warp::kWidth + Warp::lane();
      place[k] = slot < clock.capacity ? log.place_of[slot] : -1;
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) place[k] = place[k] < 0 ? -1 - place[k] : clock.moved_up(place[k]);
    HINTERLAND_UNROLLED
    for (int k = 0; k < kAsksAhead; ++k) {
      const int64_t slot = from + k * Warp::kWidth + Warp::lane();
      if (slot >= clock.capacity) continue;
      log.place_of[slot] = static_cast<int32_t>(place[k]);
      log.slot_at[place[k]] = static_cast<int32_t>(slot);
    }
  }

  template <class Team>
  HINTERLAND_FN void move_up(Team& team) const {
    for_each_warp(team, ceil_div(clock.capacity, kStride), [&](int64_t i) { move_up(i * kStride); });
    for_each(team, clock.words(),
             [&](int64_t word) { clock.used[word] = Clock::bits(0, clock.capacity - word * Clock::kSlotsInWord); });
  }
};

// Gives slots to the rows of a batch. The rows themselves are copied afterwards: to hand->admitted slots, those in `filled`.
// Called by all threads of a team, for at least one slot and one position.
template <class Team>
HINTERLAND_FN void admit(Team& team, const Clock& clock, const ClockBatch& batch) {
  const Admission admission(clock, batch);
  const int64_t asked = admission.asked.count, lap = admission.lap.count;

  if (batch.indices != nullptr)
    for_each_warp(team, ceil_div(batch.count, Admission::kStride), [&](int64_t i) { admission.ask(i * Admission::kStride); });

  team.dynamic_for(asked + lap, [&](const auto& items) {
    items([&](int64_t item) { item < asked ? admission.count_claims(item) : admission.count_slots(item - asked); });
  });

  const int64_t first_lap = sum_of_chunks(admission.clear, lap), second_lap = sum_of_chunks(admission.set, lap);
  const int64_t room = clock.lru() ? first_lap : first_lap + second_lap;
  const int64_t admitted = min_of(sum_of_chunks(admission.claims, asked), room);
  const int64_t moved = clock.lru() ? admitted + second_lap : 0, last = clock.hand->at;
  const bool move_up = clock.lru() && last + moved > clock.log.places;

  team.dynamic_for(asked + lap, [&](const auto& items) {
    items([&](int64_t item) {
      if (item < asked)
        admission.number_claims(item, admitted);
      else if (clock.lru())
        admission.leave_places(item - asked, admitted, move_up);
      else
        admission.turn_hand(item - asked, admitted, first_lap);
    });
  });

  const int64_t end = move_up ? clock.capacity - moved : last;
  team.single([&] {
    if (clock.lru())
      clock.hand->at = end + moved;
    else if (admitted > 0)
      clock.hand->at = clock.hand->following;
    clock.hand->admitted = admitted;
  });
  const int64_t appends = ceil_div(moved, Admission::kStride);
  for_each_warp(team, appends + ceil_div<int64_t>(admitted, Warp::kWidth), [&](int64_t i) {
    const int64_t claim = (i - appends) * Warp::kWidth + Warp::lane();
    if (i < appends) admission.append(i * Admission::kStride, moved, end, move_up);
    if (i >= appends && claim < admitted) admission.give(claim);
  });
  if (move_up) admission.move_up(team);
}

}  // namespace hinterland::memory
