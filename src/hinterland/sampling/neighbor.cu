// A mini-batch of sampled neighbours in one cooperative launch, or in several where memory is allocated between.
#include "hinterland/sampling/neighbors.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::sampling {

template <class Graph, bool kMayCompare>
__global__ void __launch_bounds__(512, graph::kBlocks<Graph>) sample_kernel(const __grid_constant__ SampleParams p) {
  GridTeam team(p.team);
  sample_neighbors<Graph, kMayCompare>(team, p);
}

}  // namespace hinterland::sampling
