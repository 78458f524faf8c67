// Generated edges on the GPU: how many entries each row gets, the entries of a range of rows as sortable keys, and their
// weights.
#include "hinterland/core/atomic.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/graph/generate.hpp"

namespace hinterland::graph {

// Generated graphs have no self loops.
__device__ inline EdgeRules generated(int64_t mirror) { return {mirror != 0, false, true}; }

// p.degrees[v] += the entries that all edges add to row v.
template <class Generator>
__global__ void count_rows(const __grid_constant__ CountRowsParams p) {
  const Generator generator(p.shape);
  const EdgeRules rules = generated(p.mirror);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.edges; i += step) {
    const Edge edge = generator(i);
    for (int direction = 0; direction < rules.directions(); ++direction) {
      const RowEntry entry = row_entry(rules, edge, direction);
      if (entry.kept) atomic_add(p.degrees[entry.row], int64_t{1});
    }
  }
}

// The entries of rows [first_row, end_row) as keys, in no order, appended at *cursor.
template <class Generator>
__global__ void row_keys(const __grid_constant__ RowKeysParams p) {
  const Generator generator(p.shape);
  const EdgeRules rules = generated(p.mirror);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  // All lanes of a warp stay in the loop together: they take places in `keys` with one atomic operation.
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * blockDim.x; base < p.edges; base += step) {
    const int64_t i = base + threadIdx.x;
    const Edge edge = i < p.edges ? generator(i) : Edge{0, 0};
    for (int direction = 0; direction < rules.directions(); ++direction) {
      const RowEntry entry = row_entry(rules, edge, direction);
      const bool mine = i < p.edges && entry.kept && entry.row >= p.first_row && entry.row < p.end_row;
      const uint32_t votes = Warp::ballot(mine);
      if (votes == 0) continue;
      int64_t place = 0;
      if (Warp::lane() == 0) place = atomic_add(*p.cursor, static_cast<int64_t>(__popc(votes)));
      place = Warp::broadcast(place, 0) + __popc(votes & ((1u << Warp::lane()) - 1));
      if (mine) p.keys[place] = (entry.row << p.bits) | entry.neighbor;
    }
  }
}

template <class Weight>
__global__ void key_weights(const __grid_constant__ KeyWeightsParams p) {
  const EdgeWeight<Weight> weight(p.seed);
  Weight* const weights = static_cast<Weight*>(p.weights);
  const int64_t mask = (int64_t{1} << p.bits) - 1;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count; i += step) {
    weights[i] = weight(p.keys[i] >> p.bits, p.keys[i] & mask);
  }
}

}  // namespace hinterland::graph
