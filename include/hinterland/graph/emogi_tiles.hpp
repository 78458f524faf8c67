// BaM's active cache lines (Mailthody 2022, section 8.2): which tiles of the edge array hold elements of active lists.
#pragma once

#include "hinterland/graph/emogi.hpp"

namespace hinterland::graph {

struct ActiveTiles {
  Division division;
  const uint8_t* active;  // [num_vertices]
  uint8_t* marks;         // [tiles]: becomes 1 where the tile has elements of an active list

  HINTERLAND_FN void mark(int64_t v) const {
    if (active[v] == 0) return;
    const Piece list = division.list(v);
    if (list.length() == 0) return;
    for (int64_t tile = list.begin / division.size; tile * division.size < list.end; ++tile)
      atomic_store(marks[tile], uint8_t{1});  // whoever else stores, stores the same
  }
};

}  // namespace hinterland::graph
