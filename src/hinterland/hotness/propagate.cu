// One step of a hotness score in one cooperative launch.
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/hotness/propagate.hpp"

namespace hinterland::hotness {

// Everything is 0 in the first part of `scratch`.
template <class Graph>
__global__ void __launch_bounds__(512, 2)
    propagate_kernel(const graph::GraphWords* words, const double* values, double* sums, int64_t pull, char* scratch) {
  const Graph graph(*words);
  const graph::Frontier frontier(scratch, graph::FrontierLayout(graph.num_vertices, graph.num_edges), graph.num_vertices);
  GridTeam team(&frontier.control->team);
  propagate(team, graph, frontier, values, sums, pull != 0);
}

}  // namespace hinterland::hotness
