// A phase of drawing pairs that are no edges, in one cooperative launch.
#include "hinterland/sampling/negatives.hpp"

namespace hinterland::sampling {

// `control` is zero.
template <class Graph>
__global__ void __launch_bounds__(512, 2)
    negatives_kernel(const graph::GraphWords* graph, const NegativeWords* task, TeamControl* control, int64_t phase) {
  GridTeam team(control);
  negative_edges<Graph>(team, *graph, *task, phase);
}

}  // namespace hinterland::sampling
