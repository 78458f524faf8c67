// Where the rows of a table lie. A placement has size() rows and answers what table.hpp alone asks:
//
//   spot(place)               where a row lies. Its place is its number, unless
//   locate(places)            makes places of several numbers first. It reads memory, and all look-ups are under way before the
//                             first is needed. Negative numbers stay
//   tier(place)               which tier that is for the processor that reads
//   whole(from, row_bytes)    whether the 16 bytes that begin at an aligned address, some of them a row's, may all be read
//   copies(place, row_bytes)  where else a row is kept. Asked of tables that are updated
//
// The memory of GPUs begins at multiples of 512 bytes and is padded to whole lines, so one cut of rows (plan.py) fits all. Only
// memory that the user laid out may end within 16 bytes.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/memory/meter.hpp"

namespace hinterland::memory {

// Which memory a row lies in, and how many rows lie before it there.
struct Spot {
  char* memory;
  int64_t row;
};

// One after another in one range: host memory that a GPU reads over the link, or any other that this processor can address.
struct OneRange {
  static constexpr bool kLocates = false;

  char* base;
  int64_t rows;

  HINTERLAND_FN int64_t size() const { return rows; }
  HINTERLAND_FN Spot spot(int64_t row) const { return {base, row}; }
  HINTERLAND_FN Tier tier(int64_t) const { return kHost; }
  HINTERLAND_FN bool whole(const char* from, int64_t row_bytes) const {
    return from >= base && from + 16 <= base + rows * row_bytes;
  }
};

// A divisor that the host knows: n / divisor by a multiplication, exact below 2^63 / divisor (Granlund and Montgomery,
// "Division by invariant integers using multiplication", 1994), since a GPU has no instruction that divides. `reciprocal`: of
// two or more, 2^63 / divisor + 1, rounded down.
HINTERLAND_FN int64_t divided_by(int64_t reciprocal, int64_t n) {
  return static_cast<int64_t>(Philox::multiply_high(static_cast<uint64_t>(n) * 2, static_cast<uint64_t>(reciprocal)));
}

// Dealt out in turn over the memories of several GPUs, so that hot rows do not gather in one.
struct DealtRound {
  char* const* memories;  // [count]
  int64_t count;
  int64_t reciprocal;  // of count (divided_by)

  HINTERLAND_FN Spot spot(int64_t row) const {
    const int64_t round = turn(row);
    return {memories[row - round * count], round};
  }
  HINTERLAND_FN int64_t owner(int64_t row) const { return row - turn(row) * count; }

 private:
  HINTERLAND_FN int64_t turn(int64_t row) const { return divided_by(reciprocal, row); }
};

// Neighbouring rows in one memory: of several GPUs each has a range, as where each aggregates over its part of the vertices.
struct Ranges {
  static constexpr bool kLocates = false;

  char* const* memories;  // [count]
  const int64_t* bounds;  // [count + 1]: the first row of each memory, from 0 on and never decreasing; last, the number of rows
  int64_t count;

  HINTERLAND_FN int64_t size() const { return bounds[count]; }
  HINTERLAND_FN Spot spot(int64_t row) const {
    int64_t owner = 0;
    for (int64_t i = 1; i < count; ++i) owner += row >= bounds[i] ? 1 : 0;  // of a few, and none waits for another
    return {memories[owner], row - bounds[owner]};
  }
  HINTERLAND_FN bool whole(const char*, int64_t) const { return true; }
};

// The *slots* of rows that have some nearby: CLOCK gives them out (clock.hpp), or heat does, once and for all (tiers.py).
struct SlotMap {
  const void* slots;   // [rows]: each row's slot, negative for none; null where row i has slot i
  int64_t slot_bytes;  // 4 or 8

  // Looks several rows up at once; a negative one gets any slot.
  template <int kRows>
  HINTERLAND_FN void look_up(const int64_t (&row)[kRows], int64_t (&slot)[kRows]) const {
    if (slots == nullptr) {
      for (int k = 0; k < kRows; ++k) slot[k] = row[k];
    } else if (slot_bytes == 4) {
      look_up_as<int32_t>(row, slot);
    } else {
      look_up_as<int64_t>(row, slot);
    }
  }

 private:
  template <class Slot, int kRows>
  HINTERLAND_FN void look_up_as(const int64_t (&row)[kRows], int64_t (&slot)[kRows]) const {
    for (int k = 0; k < kRows; ++k) slot[k] = static_cast<const Slot*>(slots)[max_of(row[k], int64_t{0})];
  }
};

// The copies of a row, each at the same offset of its memory: the one that this processor reads, and `count` others.
struct Copies {
  char* own;
  char* const* others;
  int64_t count, offset;

  template <class Unit>
  HINTERLAND_FN Unit read(int64_t at) const {
    return *reinterpret_cast<const Unit*>(own + (offset + at));
  }

  // write(row) for each of the others.
  template <class Write>
  HINTERLAND_FN void each(const Write& write, int64_t at = 0) const {
    for (int64_t i = 0; i < count; ++i) write(others[i] + (offset + at));
  }
};

// Several memories behind one numbering (Min 2022, section 4.3): the hottest rows are replicated in every GPU, the next are
// dealt out over the GPUs, which read them from one another, and the rest are in host memory. It is the dissertation's listing
// 4.1 with a map before it, so that rows keep the numbers that the user gave them. A place is a row's slot, or behind all slots
// for a row on the host.
struct Tiers {
  static constexpr bool kLocates = true;

  OneRange host;  // all rows; those that have a slot are not read here
  SlotMap map;
  char* local;  // slots [0, local_rows), in this processor's own memory
  int64_t local_rows;
  int64_t resident;  // slots [local_rows, resident) are dealt out
  DealtRound dealt;
  int64_t reader;         // which of the GPUs that they are dealt to this processor is
  char* const* replicas;  // [others]: the other GPUs' memories of slots [0, local_rows)
  int64_t others;

  HINTERLAND_FN int64_t size() const { return host.rows; }

  template <int kRows>
  HINTERLAND_FN void locate(int64_t (&at)[kRows]) const {
    int64_t slot[kRows];
    map.look_up(at, slot);
    for (int k = 0; k < kRows; ++k) {
      if (at[k] >= 0) at[k] = slot[k] >= 0 && slot[k] < resident ? slot[k] : resident + at[k];
    }
  }

  HINTERLAND_FN Spot spot(int64_t place) const {
    if (place >= resident) return host.spot(place - resident);
    return place < local_rows ? Spot{local, place} : dealt.spot(place - local_rows);
  }

  HINTERLAND_FN Tier tier(int64_t place) const {
    if (place >= resident) return kHost;
    return place < local_rows || dealt.owner(place - local_rows) == reader ? kLocal : kPeers;
  }

  HINTERLAND_FN bool whole(const char* from, int64_t row_bytes) const {
    const char* const end = host.base + host.rows * row_bytes;
    return !(from < host.base && from + 16 > host.base) && !(from < end && from + 16 > end);
  }

  HINTERLAND_FN Copies copies(int64_t place, int64_t row_bytes) const {
    return {local, replicas, place < 0 || place >= local_rows ? 0 : others, place * row_bytes};
  }
};

}  // namespace hinterland::memory
