// All shortest paths from one vertex in one cooperative launch: the CPU decides nothing between steps.
#include "hinterland/graph/sssp.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

template <class Graph>
__global__ void __launch_bounds__(512, 2) sssp_kernel(const __grid_constant__ PathParams p) {
  const Graph graph(*p.graph);
  const PathState<Shortest<typename Graph::Weight>> state(p, graph.num_vertices, graph.num_edges);
  GridTeam team(&state.frontier.control->team);
  best_paths(team, graph, state, p.source, {p.delta, p.light}, state.capacity);
}

}  // namespace hinterland::graph
