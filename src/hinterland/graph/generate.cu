// Generated edges on the GPU: how many entries each row gets, the entries of a range of rows as sortable keys, and their weights.
#include "hinterland/core/atomic.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/graph/generate.hpp"

namespace hinterland::graph {

// Generated graphs are undirected and have no self loops.
inline constexpr EdgeRules kGenerated{true, false, true};

// degrees[v] += the entries that edges [0, edges) add to row v.
template <class Generator>
__global__ void count_rows(int64_t edges, uint64_t seed, int64_t vertices, int64_t scale, int64_t columns,
                           int64_t* degrees) {
  const Generator generator(GraphShape{seed, vertices, scale, columns});
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < edges; i += step) {
    const Edge edge = generator(i);
    for (int direction = 0; direction < kGenerated.directions(); ++direction) {
      const RowEntry entry = row_entry(kGenerated, edge, direction);
      if (entry.kept) atomic_add(degrees[entry.row], int64_t{1});
    }
  }
}

// The entries of rows [first_row, end_row) as row << bits | neighbour, in no order, appended at *cursor.
template <class Generator>
__global__ void row_keys(int64_t edges, uint64_t seed, int64_t vertices, int64_t scale, int64_t columns,
                         int64_t first_row, int64_t end_row, int64_t bits, int64_t* cursor, int64_t* keys) {
  const Generator generator(GraphShape{seed, vertices, scale, columns});
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  // All lanes of a warp stay in the loop together: they take places in `keys` with one atomic operation.
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * blockDim.x; base < edges; base += step) {
    const int64_t i = base + threadIdx.x;
    const Edge edge = i < edges ? generator(i) : Edge{0, 0};
    for (int direction = 0; direction < kGenerated.directions(); ++direction) {
      const RowEntry entry = row_entry(kGenerated, edge, direction);
      const bool mine = i < edges && entry.kept && entry.row >= first_row && entry.row < end_row;
      const uint32_t votes = Warp::ballot(mine);
      if (votes == 0) continue;
      int64_t place = 0;
      if (Warp::lane() == 0) place = atomic_add(*cursor, static_cast<int64_t>(__popc(votes)));
      place = Warp::broadcast(place, 0) + __popc(votes & ((1u << Warp::lane()) - 1));
      if (mine) keys[place] = (entry.row << bits) | entry.neighbor;
    }
  }
}

template <class Weight>
__global__ void key_weights(const int64_t* keys, int64_t count, int64_t bits, uint64_t seed, Weight* weights) {
  const EdgeWeight<Weight> weight(seed);
  const int64_t mask = (int64_t{1} << bits) - 1;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    weights[i] = weight(keys[i] >> bits, keys[i] & mask);
  }
}

}  // namespace hinterland::graph
