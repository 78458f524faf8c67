// What a gather reads of each tier: the meter of tables. It is asked apart from the gather, which is not slower for it.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

template <class Placement>
struct CountParams {
  RowCopy<Placement> rows;  // which are counted, and not copied
  TierCount* tiers;         // [kTiers]
};

// Adds what all lanes counted.
HINTERLAND_FN void add(int64_t count, int64_t& to) {
  const int64_t sum = Warp::sum(count);
  if (Warp::lane() == 0 && sum != 0) atomic_add(to, sum);
}

// The share of thread `thread` of `threads`, counted in whole warps. Row numbers outside the table are left out.
template <class Placement>
HINTERLAND_FN void count_rows(const CountParams<Placement>& p, int64_t thread, int64_t threads) {
  TierCount found[kTiers];
  for (int64_t i = thread; i < p.rows.count; i += threads) {
    const TableRows<Placement, 1> row = p.rows.find(i);
    if (row.has(0)) row.count(0, found);
  }
  for (int tier = 0; tier < kTiers; ++tier) {
    add(found[tier].hits, p.tiers[tier].hits);
    add(found[tier].useful, p.tiers[tier].useful);
    for (int k = 0; k < TierCount::kSectors; ++k) add(found[tier].requests[k], p.tiers[tier].requests[k]);
  }
}

}  // namespace hinterland::memory
