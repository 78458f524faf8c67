// Rows of a table at given positions, copied to packed rows (gather) or from them (scatter).
//
// A row is cut into units of 1 to 16 bytes, the widest that its size and both addresses allow. `lanes` neighbouring threads
// (a power of two, 1 to 32) take one unit each, so a row costs `steps` passes of its lanes; short rows share a warp. One pass
// over one row is a piece. Every thread keeps kInFlight pieces in flight before it stores the first: a few blocks then keep
// the link busy (Min 2022, section 3.3.2, "Asynchronous Operations and Resource Provisioning").
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/memory/table.hpp"

namespace hinterland::memory {

inline constexpr int64_t kNoFault = stdlib::numeric_limits<int64_t>::max();

// Positions outside the table, found while rows are copied: the first of them, what it held, and the rows of that table.
struct IndexFault {
  int64_t first = kNoFault;
  int64_t value = 0;
  int64_t table_rows = 0;
  int64_t count = 0;
  int64_t lock = 0;
  int64_t replay = 0;  // of a CUDA graph: the one that met the first of them, from 1 on
};

// Where a kernel reports them.
struct FaultReport {
  IndexFault* fault;
  volatile int64_t* flag;           // a word in host memory, so that the CPU learns of them without asking the GPU
  const int64_t* replay = nullptr;  // which one of its CUDA graph is under way; null outside of graphs
};

// Keeps the lowest position. The lock is seldom taken: only by a thread whose position is lower than all before it.
HINTERLAND_FN void report_fault(IndexFault& fault, int64_t position, int64_t value, int64_t table_rows, const int64_t* replay) {
  atomic_add(fault.count, int64_t{1});
  while (position < atomic_load(fault.first)) {
    if (atomic_exchange_acquire(fault.lock, int64_t{1}) != 0) continue;
    if (position < atomic_load(fault.first)) {
      fault.value = value;
      fault.table_rows = table_rows;
      fault.replay = replay == nullptr ? 0 : *replay;
      atomic_store(fault.first, position);
    }
    atomic_store_release(fault.lock, int64_t{0});
  }
}

// Entry `i` of an array of 32-bit or 64-bit row numbers.
HINTERLAND_FN int64_t read_index(const void* indices, int64_t index_bytes, int64_t i) {
  return index_bytes == 4 ? static_cast<const int32_t*>(indices)[i] : static_cast<const int64_t*>(indices)[i];
}

// Row numbers from -rows to -1 count from the end, as torch's do; -1 for one outside the table.
HINTERLAND_FN int64_t resolve_index(int64_t index, int64_t rows) {
  const int64_t row = index < 0 ? index + rows : index;
  return row >= 0 && row < rows ? row : -1;
}

// Units before the first cache line that begins inside a row at `address`: the circular shift of Min 2022, listing 3.2.
HINTERLAND_FN int64_t head_units(uintptr_t address, int64_t unit_bytes) {
  return static_cast<int64_t>((kLineBytes - address % kLineBytes) % kLineBytes) / unit_bytes;
}

// The unit that comes `place`-th when a row is read from its first line on, its head last.
HINTERLAND_FN int64_t shifted_unit(int64_t place, int64_t head, int64_t row_units) {
  const int64_t unit = place + head;
  return unit < row_units ? unit : unit - row_units;
}

// How a GPU cuts rows.
struct RowCut {
  int64_t lanes;
  int64_t steps;    // of `lanes` units that a row takes, at least 1; above 1 only with 32 lanes
  int64_t shifted;  // for copy_rows alone; 1: start every row at a line (rows longer than a line that do not all begin at one)
};

// What becomes of one position. A row number outside the table is left out of a scatter, and gives a zero row in a gather.
struct Move {
  const char* from;
  char* to;
  bool reads, writes;  // whether there is anything at `from`, and whether `to` gets it, or else zeros
};

// What a gather or a scatter is given.
template <class Placement>
struct RowCopy {
  Placement placement;   // of the table
  char* packed;          // count rows, one after another
  const void* indices;   // count row numbers of the table
  int64_t index_bytes;   // 4 or 8
  const int64_t* visit;  // the order in which positions are visited (a permutation), or null for 0, 1, 2, ...
  const int64_t* valid;  // of a gather, where who copies finds it: positions from there on are padding; null: none is
  char* padding;         // the row that all of these name, where it is nearer than in the table
  int64_t count;
  int64_t row_bytes;
  int64_t into_table;  // 0: gather, 1: scatter
  RowCut cut;          // of a GPU
  FaultReport report;  // of a GPU

  HINTERLAND_FN int64_t position(int64_t turn) const { return visit == nullptr ? turn : visit[turn]; }
  HINTERLAND_FN int64_t end() const { return valid == nullptr ? stdlib::numeric_limits<int64_t>::max() : *valid; }
  // The row at `there` in the table, of a position of padding as near as it lies; `end` is end().
  HINTERLAND_FN char* nearest(char* there, int64_t position, int64_t end) const { return position < end ? there : padding; }
  HINTERLAND_FN int64_t index_at(int64_t position) const { return read_index(indices, index_bytes, position); }
  HINTERLAND_FN Table<Placement> table() const { return {placement, row_bytes}; }
  HINTERLAND_FN TableRows<Placement, 1> find(int64_t position) const {
    return table().find(resolve_index(index_at(position), placement.size()));
  }
  // The rows that are asked for at several positions; none at a negative one.
  template <int kRows>
  HINTERLAND_FN TableRows<Placement, kRows> find(const int64_t (&position)[kRows]) const {
    int64_t row[kRows];
    for (int k = 0; k < kRows; ++k) row[k] = position[k] < 0 ? 0 : index_at(position[k]);
    for (int k = 0; k < kRows; ++k) row[k] = position[k] < 0 ? -1 : resolve_index(row[k], placement.size());
    return table().find(row);
  }
  HINTERLAND_FN char* packed_row(int64_t position) const { return packed + position * row_bytes; }
  // `there`: the row that is asked for, if it is one.
  HINTERLAND_FN Move move(int64_t position, bool is_row, char* there) const {
    char* const here = packed_row(position);
    if (into_table) return {here, there, is_row, is_row};
    return {there, here, is_row, true};
  }
  HINTERLAND_FN void report_outside(int64_t position, IndexFault& fault) const {
    report_fault(fault, position, index_at(position), placement.size(), report.replay);
  }
};

inline constexpr int kInFlight = kGatherInFlight;
inline constexpr int kCopyThreads = 1024;  // of a block, at most

// The pieces that one thread takes, one after another: whose turn it is, and which unit of that row is this lane's.
struct PieceWalk {
  int64_t lanes, steps, groups;
  int64_t lane;
  int64_t turn, place;

  // From piece `first` on: the group's pieces are `groups` apart. Neighbouring groups take neighbouring rows, so that their
  // row numbers and packed rows share lines.
  HINTERLAND_FN PieceWalk(const RowCut& cut, int64_t base, int64_t thread)
      : lanes(cut.lanes),
        steps(cut.steps),
        groups(kWarpLanes / cut.lanes),
        lane(thread & (cut.lanes - 1)),
        turn(cut.steps == 1 ? base + thread % kWarpLanes / cut.lanes : base / cut.steps),
        place(lane + (cut.steps == 1 ? 0 : base % cut.steps * cut.lanes)) {}

  HINTERLAND_FN void next() {
    if (steps == 1) {
      turn += groups;
    } else if ((place += lanes) >= steps * lanes) {
      place = lane;
      ++turn;
    }
  }
};

// Looks again at the kInFlight pieces of one group, `stride` apart from `first` on, for row numbers outside the table. It is no
// part of copy_rows, which is short of registers and seldom needs it.
template <class Placement>
HINTERLAND_FN void report_faults(const RowCopy<Placement>& copy, int64_t first, int64_t stride) {
  const RowCut cut = copy.cut;
  for (int64_t k = 0; k < kInFlight; ++k) {
    const int64_t piece = first + k * stride;
    if (piece >= copy.count * cut.steps || piece % cut.steps != 0) continue;  // a row is reported by its first piece
    const int64_t position = copy.position(piece / cut.steps);
    if (!copy.find(position).has(0)) copy.report_outside(position, *copy.report.fault);
  }
}

// Takes the share of thread `thread` of `threads` (both counted in whole warps) in a copy, kInFlight pieces at a time:
// each(position, place, found) gets the positions and the rows found, and of each row which unit is this lane's; a position
// below 0 is none. Threads need not run in step, so a test may run them one after another. Bad positions are reported.
template <class Placement, class Each>
HINTERLAND_FN void for_pieces_in_flight(const RowCopy<Placement>& copy, int64_t row_units, int64_t thread, int64_t threads,
                                        const Each& each) {
  const RowCut cut = copy.cut;
  const int64_t groups = kWarpLanes / cut.lanes, batch = groups * kInFlight;
  for (int64_t base = thread / kWarpLanes * batch; base < copy.count * cut.steps; base += threads / kWarpLanes * batch) {
    PieceWalk walk(cut, base, thread);
    int64_t position[kInFlight], place[kInFlight];
    for (int k = 0; k < kInFlight; ++k, walk.next()) {
      position[k] = walk.turn < copy.count && walk.place < row_units ? copy.position(walk.turn) : -1;
      place[k] = walk.place;
    }
    const TableRows<Placement, kInFlight> found = copy.find(position);
    bool bad = false;
    for (int k = 0; k < kInFlight; ++k) bad |= position[k] >= 0 && !found.has(k);
    each(position, place, found);
    if (bad && walk.lane == 0) {
      report_faults(copy, base + thread % kWarpLanes / cut.lanes, groups);
      *copy.report.flag = 1;
    }
  }
}

// A thread's share in a copy. Bad positions give zero rows in a gather, and are left out of a scatter.
template <int kUnitBytes, class Placement>
HINTERLAND_FN void copy_rows(const RowCopy<Placement>& copy, int64_t thread, int64_t threads) {
  using Unit = UnitOf<kUnitBytes>;
  const int64_t row_units = copy.row_bytes / kUnitBytes, end = copy.end();
  for_pieces_in_flight(copy, row_units, thread, threads, [&](const auto& position, const auto& place, const auto& found) {
    Unit value[kInFlight];
    Unit* target[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      value[k] = Unit{};
      target[k] = nullptr;
      if (position[k] < 0) continue;
      char* const there = copy.nearest(found.row(k), position[k], end);
      const Move move = copy.move(position[k], found.has(k), there);
      const int64_t head = copy.cut.shifted ? head_units(reinterpret_cast<uintptr_t>(there), kUnitBytes) : 0;
      const int64_t at = shifted_unit(place[k], head, row_units) * kUnitBytes;
      if (move.reads) value[k] = *reinterpret_cast<const Unit*>(move.from + at);
      if (move.writes) target[k] = reinterpret_cast<Unit*>(move.to + at);
    }
    for (int k = 0; k < kInFlight; ++k) {
      if (target[k] != nullptr) *target[k] = value[k];
    }
  });
}

// The aligned 16 bytes that one lane reads of a row at `address`: `at` is where they begin, counted from the row's start (the
// first chunk may begin before it), and bytes [low, high) of them belong to the row. None if `high` is 0.
struct Chunk {
  int64_t at;
  int32_t low, high;
};

HINTERLAND_FN Chunk chunk_at(uintptr_t address, int64_t row_bytes, int64_t place) {
  const int64_t before = static_cast<int64_t>(address % 16);
  const int64_t chunks = ceil_div(before + row_bytes, int64_t{16});
  if (place >= chunks) return {0, 0, 0};
  const int64_t at = shifted_unit(place, head_units(address - before, 16), chunks) * 16 - before;
  return {at, static_cast<int32_t>(max_of(-at, int64_t{0})), static_cast<int32_t>(min_of(row_bytes - at, int64_t{16}))};
}

// Stores the units of a chunk that belong to the row.
template <int kUnitBytes>
HINTERLAND_FN void store_chunk(char* to, const Unit16& value, int32_t low, int32_t high) {
  using Unit = UnitOf<kUnitBytes>;
  for (int32_t byte = 0; byte < 16; byte += kUnitBytes) {
    const uint64_t half = byte < 8 ? value.low : value.high;
    if (byte >= low && byte < high) *reinterpret_cast<Unit*>(to + byte) = static_cast<Unit>(half >> (byte % 8 * 8));
  }
}

// copy_rows for a gather of rows that are longer than a line and not cut in units of 16 bytes: reads the table in aligned 16
// bytes all the same, so that four whole lines make one access of a warp, and stores in units. The link is what is scarce; the
// stores go to the GPU's own memory. Up to 15 bytes before and after a row are read with it, of sectors that it has anyway.
template <int kUnitBytes, class Placement>
HINTERLAND_FN void gather_chunks(const RowCopy<Placement>& copy, int64_t thread, int64_t threads) {
  const int64_t most = copy.cut.lanes * copy.cut.steps;  // chunks; chunk_at() knows how many a row has
  const int64_t end = copy.end();
  for_pieces_in_flight(copy, most, thread, threads, [&](const auto& position, const auto& place, const auto& found) {
    Unit16 value[kInFlight];
    Chunk chunk[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      value[k] = Unit16{};
      chunk[k] = {0, 0, 0};
      if (position[k] < 0) continue;
      const char* const there = copy.nearest(found.row(k), position[k], end);
      chunk[k] = chunk_at(reinterpret_cast<uintptr_t>(there), copy.row_bytes, place[k]);
      if (!found.has(k) || chunk[k].high == 0) continue;
      value[k] = found.template load_around<kUnitBytes>(there + chunk[k].at, chunk[k].low, chunk[k].high);
    }
    for (int k = 0; k < kInFlight; ++k) {
      if (chunk[k].high == 0) continue;
      store_chunk<kUnitBytes>(copy.packed_row(position[k]) + chunk[k].at, value[k], chunk[k].low, chunk[k].high);
    }
  });
}

// What follows a scatter where rows are replicated: the bytes that it left in the copy that this processor reads go to the
// others, so that all hold the same even where a row was given twice. The share of thread `thread` of `threads`, counted in
// whole warps.
template <int kUnitBytes, class Placement>
HINTERLAND_FN void replicate_rows(const RowCopy<Placement>& copy, int64_t thread, int64_t threads) {
  using Unit = UnitOf<kUnitBytes>;
  const RowCut cut = copy.cut;
  const int64_t row_units = copy.row_bytes / kUnitBytes;
  const int64_t groups = kWarpLanes / cut.lanes, lane = thread & (cut.lanes - 1);
  for (int64_t turn = thread / cut.lanes; turn < copy.count; turn += threads / kWarpLanes * groups) {
    const Copies copies = copy.find(turn).copies(0);
    if (copies.count == 0) continue;
    for (int64_t unit = lane; unit < row_units; unit += cut.lanes) {
      const Unit value = copies.template read<Unit>(unit * kUnitBytes);
      copies.each([&](char* other) { *reinterpret_cast<Unit*>(other) = value; }, unit * kUnitBytes);
    }
  }
}

}  // namespace hinterland::memory
