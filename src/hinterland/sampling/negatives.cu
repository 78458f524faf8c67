// A phase of drawing pairs that are no edges, in one cooperative launch.
#include "hinterland/sampling/negatives.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::sampling {

template <class Graph>
__global__ void __launch_bounds__(512, graph::kBlocks<Graph>) negatives_kernel(const __grid_constant__ NegativeParams p) {
  GridTeam team(&p.control->team);
  negative_edges<Graph>(team, p);
}

}  // namespace hinterland::sampling
