// A mini-batch of sampled neighbours in one cooperative launch, or in several where memory is allocated between.
#include "hinterland/sampling/neighbors.hpp"

namespace hinterland::sampling {

// `batch` describes memory of any kind that the GPU addresses; `team` is zero.
template <class Graph, bool kMayCompare>
__global__ void __launch_bounds__(512, 2)
    sample_kernel(const BatchWords* batch, TeamControl* control, int64_t from, int64_t to) {
  GridTeam team(control);
  sample_neighbors<Graph, kMayCompare>(team, *batch, from, to);
}

}  // namespace hinterland::sampling
