// Rows brought from where they are: to[i] = the row of place i. What a halo is filled by; of several GPUs each reads the
// others' memory, so that nothing is packed before and no owner does anything.
//
// A row is so many units of up to 16 bytes, and has `lanes` neighbouring lanes (a power of two, at most a warp). Each asks for
// its units of several rows before it needs the first: over a link that takes a microsecond. Rows lie in the order of their
// owners, and GPUs that all began with the first of these would share its link.
#pragma once

#include "hinterland/fullgraph/part_rows.hpp"

namespace hinterland::fullgraph {

inline constexpr int kTakeThreads = 512;  // of a GPU's block

struct TakeParams {
  const void* places;  // [count]
  int64_t place_bytes;
  int64_t count;
  int64_t begin;  // which row is brought first; the last of all is followed by row 0
  RowWords from;
  int64_t units;  // of a row
  char* to;       // [count, units]
  int64_t lanes;  // of a row
};

// The work of one thread of `threads`.
template <class Place, class Source, int kUnitBytes>
HINTERLAND_FN void take_rows(const TakeParams& p, int64_t thread, int64_t threads) {
  using Unit = memory::UnitOf<kUnitBytes>;
  constexpr int kAtOnce = 4;
  const Source from(p.from);
  const int64_t lane = thread % p.lanes, groups = threads / p.lanes;
  Unit* const to = reinterpret_cast<Unit*>(p.to);
  for (int64_t first = thread / p.lanes; first < p.count; first += groups * kAtOnce) {
    int64_t slots[kAtOnce];
    const Unit* rows[kAtOnce];
    for (int j = 0; j < kAtOnce; ++j) {
      const int64_t i = first + j * groups, slot = i + p.begin;
      slots[j] = slot < p.count ? slot : slot - p.count;
      rows[j] = i < p.count ? from.template row<Unit>(place_of<Place>(p.places, p.place_bytes, slots[j])) : nullptr;
    }
    HINTERLAND_ROLLED
    for (int64_t unit = lane; unit < p.units; unit += p.lanes) {
      Unit held[kAtOnce];
      for (int j = 0; j < kAtOnce; ++j)
        if (rows[j] != nullptr) held[j] = rows[j][unit];
      for (int j = 0; j < kAtOnce; ++j)
        if (rows[j] != nullptr) to[slots[j] * p.units + unit] = held[j];
    }
  }
}

}  // namespace hinterland::fullgraph
