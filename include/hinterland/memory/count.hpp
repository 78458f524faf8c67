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

// The share of thread `thread` of `threads`, counted in whole warps. Row numbers outside the table are left out.
template <class Placement>
HINTERLAND_FN void count_rows(const CountParams<Placement>& p, int64_t thread, int64_t threads) {
  TierCount found[kTiers];
  for (int64_t i = thread; i < p.rows.count; i += threads) {
    const Rows<Placement, 1> row = p.rows.find(i);
    if (row.has(0)) row.count(0, found);
  }
  for (int tier = 0; tier < kTiers; ++tier) {
    const int64_t hits = Warp::sum(found[tier].hits);
    const int64_t bytes = Warp::sum(found[tier].bytes), requests = Warp::sum(found[tier].requests);
    if (Warp::lane() != 0 || hits == 0) continue;
    atomic_add(p.tiers[tier].hits, hits);
    atomic_add(p.tiers[tier].bytes, bytes);
    atomic_add(p.tiers[tier].requests, requests);
  }
}

}  // namespace hinterland::memory
