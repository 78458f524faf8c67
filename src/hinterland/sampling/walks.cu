// Random walks in one cooperative launch.
#include "hinterland/sampling/walks.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::sampling {

template <class Graph>
__global__ void __launch_bounds__(512, graph::kBlocks<Graph>) walks_kernel(const __grid_constant__ WalkParams p) {
  GridTeam team(&p.control->team);
  random_walks<Graph>(team, p);
}

}  // namespace hinterland::sampling
