// A table whose rows lie in several memories behind one numbering (Min 2022, section 4.3): the hottest are replicated in every
// GPU, the next are interleaved over the GPUs, which read them from one another, and the rest are in host memory.
//
// The rows that GPUs hold have *slots*, from 0 on in the order of their heat. An address map keeps the slot of each row, so that
// rows keep the numbers that the user gave them; the dissertation's listing 4.1, which has no map, is the case slot == row.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

// What one processor reads rows through. All memories begin at multiples of 512 bytes, so one cut (plan.py) fits all, and those
// of GPUs are padded to whole lines.
struct TieredTable {
  static constexpr bool kMapped = true;

  char* host;  // all rows by their numbers; those that have a slot are not read here
  int64_t rows;
  const void* slots;   // [rows]: each row's slot, negative for one on the host; null where row i has slot i
  int64_t slot_bytes;  // 4 or 8
  char* local;         // slots [0, local_rows), in this processor's own memory
  int64_t local_rows;
  int64_t resident;     // slots [local_rows, resident) are dealt out over `gpus` memories
  char* const* shards;  // [gpus]
  int64_t gpus;
  int64_t reciprocal;     // of gpus: 2^63 / gpus + 1, rounded down, for two GPUs or more
  char* const* replicas;  // [others]: the other GPUs' memories of slots [0, local_rows)
  int64_t others;

  // Rows to places: a row's slot, or behind all slots for one on the host; negative ones stay. All look-ups in the map are under
  // way before the first is needed.
  template <int kRows>
  HINTERLAND_FN void locate(int64_t (&at)[kRows]) const {
    if (slots == nullptr) {
      for (int k = 0; k < kRows; ++k) at[k] = place_of(at[k], at[k]);
    } else if (slot_bytes == 4) {
      look_up<int32_t>(at);
    } else {
      look_up<int64_t>(at);
    }
  }

  HINTERLAND_FN int64_t locate(int64_t row) const {
    int64_t at[1] = {row};
    locate(at);
    return at[0];
  }

  HINTERLAND_FN char* at(int64_t place, int64_t row_bytes) const {
    if (place >= resident) return host + (place - resident) * row_bytes;
    if (place < local_rows) return local + place * row_bytes;
    const int64_t dealt = place - local_rows, round = quotient(dealt);
    return shards[dealt - round * gpus] + round * row_bytes;
  }

  // Only the host's memory may end within 16 aligned bytes.
  HINTERLAND_FN bool whole(const char* from, int64_t row_bytes) const {
    const char* const end = host + rows * row_bytes;
    return !(from < host && from + 16 > host) && !(from < end && from + 16 > end);
  }

  HINTERLAND_FN bool is_local(int64_t place) const { return place >= 0 && place < local_rows; }

 private:
  HINTERLAND_FN int64_t place_of(int64_t row, int64_t slot) const {
    return row >= 0 ? slot >= 0 && slot < resident ? slot : resident + row : row;
  }

  template <class Slot, int kRows>
  HINTERLAND_FN void look_up(int64_t (&at)[kRows]) const {
    Slot slot[kRows];
    for (int k = 0; k < kRows; ++k) slot[k] = static_cast<const Slot*>(slots)[max_of(at[k], int64_t{0})];
    for (int k = 0; k < kRows; ++k) at[k] = place_of(at[k], slot[k]);
  }

  // dealt / gpus by a multiplication, exact below 2^63 / gpus (Granlund and Montgomery, "Division by invariant integers using
  // multiplication", 1994): a GPU has no instruction that divides.
  HINTERLAND_FN int64_t quotient(int64_t dealt) const {
    return static_cast<int64_t>(Philox::multiply_high(static_cast<uint64_t>(dealt) * 2, static_cast<uint64_t>(reciprocal)));
  }
};

// What follows a scatter where rows are replicated: the bytes that it left in this processor's memory go to the other GPUs, so
// that all hold the same even where a row was given twice. The share of thread `thread` of `threads`, counted in whole warps.
template <int kUnitBytes>
HINTERLAND_FN void replicate_rows(const RowCopy<TieredTable>& copy, int64_t thread, int64_t threads) {
  using Unit = typename UnitOf<kUnitBytes>::type;
  const RowCut cut = copy.cut;
  const int64_t row_units = copy.row_bytes / kUnitBytes;
  const int64_t groups = kWarpLanes / cut.lanes, lane = thread & (cut.lanes - 1);
  for (int64_t turn = thread / cut.lanes; turn < copy.count; turn += threads / kWarpLanes * groups) {
    const int64_t place = copy.place(copy.index_at(turn));
    if (!copy.table.is_local(place)) continue;
    for (int64_t unit = lane; unit < row_units; unit += cut.lanes) {
      const int64_t at = place * copy.row_bytes + unit * kUnitBytes;
      const Unit value = *reinterpret_cast<const Unit*>(copy.table.local + at);
      for (int64_t i = 0; i < copy.table.others; ++i) *reinterpret_cast<Unit*>(copy.table.replicas[i] + at) = value;
    }
  }
}

}  // namespace hinterland::memory
