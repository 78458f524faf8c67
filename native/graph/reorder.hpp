// Vertex orders that put the neighbours of a vertex near each other.
#pragma once

#include <cstdint>

#include "graph/build.hpp"

namespace hinterland::native {

// The order in which a queue meets the vertices: order[i] is the i-th. Where the queue runs empty, the next vertex of `roots`
// (every vertex once) that was not met yet begins anew. The neighbours of a vertex join as its row has them or, with
// `by_degree`, those of smaller degree first, ties by number: Cuthill and McKee's order (1969), which George (1971) reverses.
void queue_order(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, const int64_t* roots, bool by_degree,
                 int64_t* order);

}  // namespace hinterland::native
