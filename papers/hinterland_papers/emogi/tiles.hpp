// BaM's active cache lines (Mailthody 2022, section 8.2): which tiles of the edge array hold elements of active lists.
#pragma once

#include "hinterland_papers/emogi/traversal.hpp"

namespace hinterland::emogi {

struct ActiveTiles {
  Division division;
  const uint8_t* active;  // [num_vertices]
  uint8_t* marks;         // [tiles]: becomes 1 where the tile has elements of an active list

  HINTERLAND_FN void mark(int64_t v) const {
    if (active[v] == 0) return;
    const Piece tiles = division.tiles_of(v);
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile)
      atomic_store(marks[tile], uint8_t{1});  // whoever else stores, stores the same
  }
};

}  // namespace hinterland::emogi
