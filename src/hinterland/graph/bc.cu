// What one source adds to betweenness centrality, in one cooperative launch.
#include "hinterland/graph/bc.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

template <class Graph>
__global__ void __launch_bounds__(512, 2) bc_kernel(const __grid_constant__ BcParams p) {
  const Graph graph(*p.graph);
  const BcLayout at(graph.num_vertices, graph.num_edges, p.history_size);
  const BcState state(p.levels, p.sigma, p.scores, p.scratch, at, graph.num_vertices, p.history_size);
  GridTeam team(&state.frontier.control->team);
  betweenness(team, graph, state, p.source);
}

}  // namespace hinterland::graph
