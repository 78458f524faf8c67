// Random walks in one cooperative launch.
#include "hinterland/sampling/walks.hpp"

namespace hinterland::sampling {

// `control` is zero.
template <class Graph>
__global__ void __launch_bounds__(512, 2) walks_kernel(const graph::GraphWords* graph, const WalkWords* task, TeamControl* control) {
  GridTeam team(control);
  random_walks<Graph>(team, *graph, *task);
}

}  // namespace hinterland::sampling
