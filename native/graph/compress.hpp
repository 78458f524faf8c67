// Packed neighbour lists (hinterland/graph/compress.hpp) of whole graphs. Python allocates between the steps.
#pragma once

#include <cstdint>
#include <utility>

#include "graph/build.hpp"

namespace hinterland::native {

// Packed rows: their degrees follow from indptr; row v is bytes [at[v], at[v + 1]) of `stream`. Its neighbours are below
// `vertices`, which decides how wide the fields are.
struct PackedArrays {
  const int64_t* indptr;
  const int64_t* at;
  const void* stream;
  int64_t rows, vertices, edges;
  int64_t stream_bytes;
};

// Sets at[0 .. rows] to where each packed list will begin. Returns how many bytes they take, or -1 if a list does not
// ascend among the vertices: sort_rows first.
int64_t pack_offsets(const int64_t* indptr, int64_t rows, int64_t vertices, NeighborArray neighbors, int64_t edges,
                     int64_t* at);

// Writes the packed lists to stream[0 .. packed_bytes(at[rows])).
void pack_rows(const int64_t* indptr, int64_t rows, int64_t vertices, NeighborArray neighbors, int64_t edges, const int64_t* at,
               uint8_t* stream);

// Both return the first row with a block that does not lie within the row's bytes, or -1.
int64_t unpack_rows(const PackedArrays& packed, NeighborArray neighbors);
// The first `count` neighbours of each row, neighbour j of row v at heads[j * rows + v]; -1 where there is none.
int64_t unpack_heads(const PackedArrays& packed, NeighborArray heads, int64_t count);

// The first row whose packed list is not what its degree and bytes promise, or -1.
int64_t first_wrong_list(const PackedArrays& packed);

// In one pass first_wrong_list, and is_mirrored if no list is wrong. There is a weight for each neighbour, or none at all.
std::pair<int64_t, bool> check_undirected(const PackedArrays& packed, WeightArray weights);

}  // namespace hinterland::native
