// Vertex orders that put the neighbours of a vertex near each other.
#pragma once

#include <cstdint>

#include "graph/build.hpp"

namespace hinterland::native {

// The order in which a queue meets the vertices: order[i] is the i-th. Where the queue runs empty, the next vertex of `roots`
// (every vertex once) that was not met yet begins anew. The neighbours of a vertex join as its row has them or, with
// `by_degree`, those of smaller degree first, ties by number: Cuthill and McKee's order (1969), which George (1971) reverses.
void queue_order(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges, const int64_t* roots,
                 bool by_degree, int64_t* order);

// Row i becomes row order[i] of `indptr`, with each neighbour v as numbers[v] and with its weights. `to_indptr` has the offsets
// of the new rows, whose neighbours are in the order of the old ones: sort_rows follows. Returns whether all are vertices.
bool renumber_rows(const int64_t* indptr, NeighborArray neighbors, WeightArray weights, int64_t edges, const int64_t* order,
                   const int64_t* numbers, const int64_t* to_indptr, int64_t vertices, NeighborArray to_neighbors,
                   WeightArray to_weights);

}  // namespace hinterland::native
