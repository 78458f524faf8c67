// Rows by their numbers, wherever they lie (Min 2022, sections 3.3 and 4.3). Where that is, is the business of a placement
// (placement.hpp), chosen by whoever made the table; no kernel asks. Kernels find several rows at once, and then
//
//   read    load from each before they need the first;
//   write   store to them. Bytes of a row that several threads write may be any one's of them, and other copies wait for
//           replicate_rows (gather.hpp);
//   update  load, compute and store, to the other copies as well, when they are alone with a row: as its only owner, or by a
// lock.
#pragma once

#include "hinterland/core/platform.hpp"
#include "hinterland/memory/placement.hpp"

namespace hinterland::memory {

// What one load or store moves: 1 to 16 bytes.
struct alignas(16) Unit16 {
  uint64_t low, high;
};
// Its elements, one by one.
template <class T>
struct Elements {
  T element[16 / sizeof(T)];
};
template <int kBytes>
using UnitUpTo4 = stdlib::conditional_t<kBytes == 4, uint32_t, stdlib::conditional_t<kBytes == 2, uint16_t, uint8_t>>;
template <int kBytes>
using UnitOf = stdlib::conditional_t<kBytes == 16, Unit16, stdlib::conditional_t<kBytes == 8, uint64_t, UnitUpTo4<kBytes>>>;

// Several rows of a table, to be read or written as long as this lasts.
template <class Placement, int kRows>
struct TableRows {
  const Placement& placement;
  int64_t row_bytes;
  int64_t place[kRows];

  HINTERLAND_FN bool has(int k) const { return place[k] >= 0; }
  // The row; anything, if there is none.
  template <class T = char>
  HINTERLAND_FN T* row(int k) const {
    const Spot spot = placement.spot(max_of(place[k], int64_t{0}));
    return reinterpret_cast<T*>(spot.memory + spot.row * row_bytes);
  }
  // Adds what reading a row takes of the tier where it lies.
  HINTERLAND_FN void count(int k, TierCount (&tiers)[kTiers]) const {
    const char* const from = row(k);
    tiers[placement.tier(place[k])].add_run(from, from + row_bytes, 1);
  }
  HINTERLAND_FN Copies copies(int k) const { return placement.copies(place[k], row_bytes); }

  // The aligned 16 bytes at `from`, of which [low, high) are a row's. Where they reach over an end of the table, only those are
  // read, in units.
  template <int kUnitBytes>
  HINTERLAND_FN Unit16 load_around(const char* from, int32_t low, int32_t high) const {
    using Unit = UnitOf<kUnitBytes>;
    if (placement.whole(from, row_bytes)) return *reinterpret_cast<const Unit16*>(from);
    Unit16 value{};
    for (int32_t byte = low; byte < high; byte += kUnitBytes) {
      uint64_t& half = byte < 8 ? value.low : value.high;
      half |= static_cast<uint64_t>(*reinterpret_cast<const Unit*>(from + byte)) << (byte % 8 * 8);
    }
    return value;
  }
};

template <class Placement>
struct Table {
  const Placement& placement;
  int64_t row_bytes;

  HINTERLAND_FN int64_t size() const { return placement.size(); }

  // The rows of these numbers, none for a negative one. All are looked up at once, so that a caller that loads from each before
  // it needs the first waits once for the map, and once for the rows.
  template <int kRows>
  HINTERLAND_FN TableRows<Placement, kRows> find(const int64_t (&number)[kRows]) const {
    TableRows<Placement, kRows> found{placement, row_bytes, {}};
    for (int k = 0; k < kRows; ++k) found.place[k] = number[k];
    if constexpr (Placement::kLocates) placement.locate(found.place);
    return found;
  }

  HINTERLAND_FN TableRows<Placement, 1> find(int64_t number) const {
    const int64_t one[1] = {number};
    return find(one);
  }
};

}  // namespace hinterland::memory
