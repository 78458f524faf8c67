// Replays a traversal of EMOGI warp by warp and counts what its loads ask of the link.
#pragma once

#include <cstdint>

#include "graph/emogi.hpp"
#include "hinterland/traffic/requests.hpp"

namespace hinterland::native {

struct LevelTraffic {
  traffic::RequestCounts requests;
  int64_t vertices;        // served, each counted once
  int64_t useful_bytes;    // of their lists
  int64_t distinct_bytes;  // of the sectors that hold them, each counted once: what a cache without end would let through
  int64_t longest;         // times that the busiest warp waits for the link
};

// `stamps` says in which level each vertex is active, -1 never; a vertex is active in at most one. An element of the array that
// is read takes element_bytes: those of an edge, or of a weight beside it. Adds to levels[0 .. num_levels - 1].
void count_traffic(const EmogiCase& run, const int32_t* stamps, int element_bytes, LevelTraffic* levels, int64_t num_levels);

}  // namespace hinterland::native
