// Rows of tables in host memory for models that are served: from slots in GPU memory where rows have one, else over the link.
//
// A batch is one admission (clock.hpp), which says of each position where its row lies, and one pass, which moves rows. Both have
// the same launches whatever the rows are, so a graph of the GPU's can replay them. In the pass a row that is in no slot crosses
// the link to all positions that name it, and the first of them puts it into its new slot, after the row that leaves that slot
// went back to its table. Nobody else reads or writes either of them meanwhile: slots of rows that the batch names are not given
// away. So hits and misses are read at once, and a batch takes as long as the slower of both.
//
// Rows are cut into units of 16 bytes, as gather.hpp cuts them.
#pragma once

#include "hinterland/core/floats.hpp"
#include "hinterland/memory/clock.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

// What a pass does.
enum class RowUse {
  kGather,   // rows to `out`, and new ones to their slots
  kResolve,  // new rows to their slots, and the slots' numbers to `out`
  kWrite,    // `values` to the slots of their rows, or to the tables
  kThrough,  // after it: what is in slots to the tables
  kFlush,    // the positions are slots: rows that are ahead of their tables go there
  kRefresh,  // likewise: the others come from there
};

struct RowTableParams {
  Clock clock;       // of all tables' rows, numbered through; without slots, rows are read where they lie
  ClockBatch batch;  // with bounds
  Ranges tables;
  char* slots;          // [capacity] rows
  int64_t row_bytes;    // a multiple of 16
  const float* scales;  // by which the elements of each row are multiplied, or null
  void* out;            // gather: [count] rows; resolve: int32 [count]
  const char* values;   // write: [count] rows
  RowCut cut;           // of a GPU
  FaultReport report;   // the CPU's has no flag

  HINTERLAND_FN int32_t place(int64_t position) const {
    return clock.capacity == 0 ? ClockBatch::kElsewhere : batch.places[position];
  }
  HINTERLAND_FN int32_t slot_of(int64_t row) const { return clock.capacity == 0 ? kNoSlot : clock.slots[row]; }
  HINTERLAND_FN char* in_slot(int64_t slot) const { return slots + slot * row_bytes; }
  HINTERLAND_FN char* in_table(int64_t table, int64_t row) const {
    return tables.memories[table] + (row - tables.bounds[table]) * row_bytes;
  }
  HINTERLAND_FN char* in_table(int64_t row) const {
    const Spot spot = tables.spot(row);
    return spot.memory + spot.row * row_bytes;
  }
};

// The way of one position's row. Either end may be null: then nothing is read, or written there.
struct RowWay {
  const char* from;
  char* to;       // beside the output
  int32_t claim;  // or to the new slot of the claim of this number; below 0: none
};

// What is asked for at a position: two reads that wait for nothing.
template <RowUse kUse>
struct AskedRow {
  static constexpr bool kOfSlots = kUse == RowUse::kFlush || kUse == RowUse::kRefresh;

  int64_t number;  // of a row in its table, or in a slot the row
  int32_t place;

  HINTERLAND_FN AskedRow(const RowTableParams& p, int64_t position)
      : number(kOfSlots ? p.clock.row_of[position] : p.batch.number(position)),
        place(kOfSlots || kUse == RowUse::kThrough ? ClockBatch::kElsewhere : p.place(position)) {}
  HINTERLAND_FN AskedRow() = default;

  // -1: none.
  HINTERLAND_FN int64_t row(const RowTableParams& p, int64_t position) const {
    return kOfSlots ? number : p.batch.row(number, position, p.clock.rows);
  }
};

template <RowUse kUse>
HINTERLAND_FN RowWay way_of(const RowTableParams& p, int64_t position, int64_t row, int32_t place) {
  RowWay way{nullptr, nullptr, -1};
  if (row < 0) return way;
  if constexpr (kUse == RowUse::kFlush || kUse == RowUse::kRefresh) {
    constexpr bool kHome = kUse == RowUse::kFlush;
    const bool ahead = p.clock.written != nullptr && Clock::bit_of(p.clock.written, position);
    if (ahead != kHome) return way;
    way.from = kHome ? p.in_slot(position) : p.in_table(row);
    way.to = kHome ? p.in_table(row) : p.in_slot(position);
    return way;
  }
  if constexpr (kUse == RowUse::kThrough) {
    const int32_t slot = p.slot_of(row);
    if (slot >= 0) way.from = p.in_slot(slot), way.to = p.in_table(p.batch.table(position), row);
    return way;
  }
  way.claim = ClockBatch::kClaim - place;
  if constexpr (kUse == RowUse::kGather) {
    way.from = place >= 0 ? p.in_slot(place) : p.in_table(p.batch.table(position), row);
  } else if constexpr (kUse == RowUse::kResolve) {
    if (way.claim >= 0) way.from = p.in_table(p.batch.table(position), row);
  } else {
    // A row that is new in this batch is the first position's that names it.
    if (place == ClockBatch::kElsewhere && p.slot_of(row) >= 0) return way;
    way.from = p.values + position * p.row_bytes;
    if (place >= 0) way.to = p.in_slot(place);
    if (place == ClockBatch::kElsewhere) way.to = p.in_table(p.batch.table(position), row);
  }
  return way;
}

// Once for each position, beside moving its row.
template <RowUse kUse>
HINTERLAND_FN void note_way(const RowTableParams& p, int64_t position, int64_t row, int32_t place) {
  if constexpr (kUse == RowUse::kThrough || kUse == RowUse::kFlush || kUse == RowUse::kRefresh) return;
  if constexpr (kUse == RowUse::kResolve || kUse == RowUse::kWrite) {
    const int32_t slot = row < 0 || place >= 0 ? place : p.slot_of(row);
    if constexpr (kUse == RowUse::kResolve) static_cast<int32_t*>(p.out)[position] = slot;
    if (kUse == RowUse::kWrite && slot >= 0 && p.clock.written != nullptr)
      atomic_or(p.clock.written[slot / Clock::kSlotsInWord], 1u << slot % Clock::kSlotsInWord);
  }
  if (row >= 0) return;
  const int64_t* const own = p.batch.bounds + p.batch.table(position);
  report_fault(*p.report.fault, position, p.batch.number(position), own[1] - own[0], p.report.replay);
  if (p.report.flag != nullptr) *p.report.flag = 1;
}

HINTERLAND_FN Unit16 unit_at(const char* row, int64_t at) {
  return row == nullptr ? Unit16{} : *reinterpret_cast<const Unit16*>(row + at);
}

// Where the unit of a row goes beside the output that is `at` bytes from its beginning, after what was there went to its table.
HINTERLAND_FN char* clear_end(const RowTableParams& p, const RowWay& way, int64_t at) {
  if (way.claim < 0) return way.to;
  char* const to = p.in_slot(p.batch.filled[way.claim]);
  const int64_t left = p.batch.left[way.claim];
  if (left >= 0) *reinterpret_cast<Unit16*>(p.in_table(left) + at) = unit_at(to, at);
  return to;
}

// The same unit where it is to be; `out`: of a gather, as elements of type Out.
template <class T, class Out>
HINTERLAND_FN void put_unit(char* to, const Unit16& unit, int64_t at, float scale, Out* out) {
  if (to != nullptr) *reinterpret_cast<Unit16*>(to + at) = unit;
  if (out == nullptr) return;
  if constexpr (stdlib::is_same_v<T, Out>) {
    *reinterpret_cast<Unit16*>(out + at / sizeof(T)) = unit;
  } else {
    const auto elements = stdlib::bit_cast<Elements<T>>(unit);
    constexpr int kAll = 16 / sizeof(T), kEach = 16 / sizeof(Out);
    for (int i = 0; i < kAll; i += kEach) {
      Elements<Out> some;
      for (int k = 0; k < kEach; ++k) narrow(widen(elements.element[i + k]) * scale, some.element[k]);
      *reinterpret_cast<Unit16*>(out + at / sizeof(T) + i) = stdlib::bit_cast<Unit16>(some);
    }
  }
}

// A gather's row of the output, and the scale of what is read; null and 1 otherwise.
template <RowUse kUse, class T, class Out>
HINTERLAND_FN Out* output_of(const RowTableParams& p, int64_t position) {
  if constexpr (kUse != RowUse::kGather) return nullptr;
  return static_cast<Out*>(p.out) + position * (p.row_bytes / static_cast<int64_t>(sizeof(T)));
}
template <class T, class Out>
HINTERLAND_FN float scale_of(const RowTableParams& p, int64_t row) {
  if constexpr (stdlib::is_same_v<T, Out>) return 1;
  return p.scales == nullptr || row < 0 ? 1 : p.scales[row];
}

// One row: the CPU's share.
template <RowUse kUse, class T, class Out>
HINTERLAND_FN void move_row(const RowTableParams& p, int64_t position) {
  const AskedRow<kUse> asked(p, position);
  const int64_t row = asked.row(p, position);
  const RowWay way = way_of<kUse>(p, position, row, asked.place);
  Out* const out = output_of<kUse, T, Out>(p, position);
  const float scale = scale_of<T, Out>(p, row);
  note_way<kUse>(p, position, row, asked.place);
  if (way.to == nullptr && way.claim < 0 && out == nullptr) return;
  for (int64_t at = 0; at < p.row_bytes; at += 16) {
    const Unit16 unit = unit_at(way.from, at);
    put_unit<T, Out>(clear_end(p, way, at), unit, at, scale, out);
  }
}

// The share of thread `thread` of `threads` (both counted in whole warps) of a GPU, kInFlight pieces at a time. Threads need not
// run in step.
template <RowUse kUse, class T, class Out>
HINTERLAND_FN void move_rows(const RowTableParams& p, int64_t thread, int64_t threads) {
  constexpr bool kFromTable = kUse == RowUse::kGather || kUse == RowUse::kResolve || kUse == RowUse::kRefresh;
  const RowCut cut = p.cut;
  const int64_t units = p.row_bytes / 16, groups = kWarpLanes / cut.lanes, batch = groups * kInFlight;
  for (int64_t base = thread / kWarpLanes * batch; base < p.batch.count * cut.steps; base += threads / kWarpLanes * batch) {
    PieceWalk walk(cut, base, thread);
    RowWay way[kInFlight];
    int32_t position[kInFlight], unit[kInFlight];  // fewer than Clock::kMost
    Unit16 value[kInFlight];
    float scale[kInFlight];
    AskedRow<kUse> asked[kInFlight];
    HINTERLAND_UNROLLED
    for (int k = 0; k < kInFlight; ++k, walk.next()) {
      position[k] = walk.turn < p.batch.count ? static_cast<int32_t>(walk.turn) : -1;
      unit[k] = static_cast<int32_t>(walk.place);
      asked[k] = AskedRow<kUse>(p, min_of(walk.turn, p.batch.count - 1));
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t place = unit[k];
      if (place >= units) position[k] = -1;
      const int64_t row = position[k] < 0 ? -1 : asked[k].row(p, position[k]);
      way[k] = way_of<kUse>(p, position[k], row, asked[k].place);
      scale[k] = scale_of<T, Out>(p, row);
      const char* const table = kFromTable ? way[k].from : way[k].to;
      const int64_t head = cut.shifted ? head_units(reinterpret_cast<uintptr_t>(table), 16) : 0;
      unit[k] = static_cast<int32_t>(shifted_unit(place, head, units));
      if (position[k] >= 0 && place == 0) note_way<kUse>(p, position[k], row, asked[k].place);
    }
    HINTERLAND_UNROLLED
    for (int k = 0; k < kInFlight; ++k) value[k] = unit_at(way[k].from, int64_t{16} * unit[k]);
    HINTERLAND_UNROLLED
    for (int k = 0; k < kInFlight; ++k) {
      if (position[k] < 0) continue;
      const int64_t at = int64_t{16} * unit[k];
      char* const to = clear_end(p, way[k], at);
      put_unit<T, Out>(to, value[k], at, scale[k], output_of<kUse, T, Out>(p, position[k]));
    }
  }
}

}  // namespace hinterland::memory
