// Rows of a table with slots for some (clock.hpp), as threads ask for them one by one, in any order: step 1 of a batch in which a
// row's position is its number. Slots are given once all have asked, so meanwhile each row stays where it is.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/memory/placement.hpp"

namespace hinterland::memory {

inline constexpr int32_t kNoSlot = -1;

// What stands in place of a row's slot where a batch asks for one. The lowest position has the lowest claim. A batch has at most
// Clock::kMost positions, so claims stay below kNoSlot.
HINTERLAND_FN int32_t claim_of(int64_t position) {
  return static_cast<int32_t>(stdlib::numeric_limits<int32_t>::min() + position);
}

struct RequestedRows {
  int32_t* slots;    // of the Clock
  uint32_t* marked;  // likewise
  char* local;       // the slots
  OneRange host;

  // Asks for a row, and says where it lies. Of one that the table does not have nothing is noted.
  HINTERLAND_FN Spot spot(int64_t row) const {
    if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(host.rows)) return host.spot(row);
    const int32_t slot = atomic_load(slots[row]), claim = claim_of(row);
    if (slot < 0) {
      if (slot != claim) atomic_store(slots[row], claim);  // all who ask for it write the same
      return host.spot(row);
    }
    const uint32_t bit = 1u << slot % 32;
    uint32_t& word = marked[slot / 32];
    if ((atomic_load(word) & bit) == 0) atomic_or(word, bit);
    return {local, slot};
  }
};

}  // namespace hinterland::memory
