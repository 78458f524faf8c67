// What one source adds to betweenness centrality, in one cooperative launch.
#include "hinterland/graph/bc.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph>
__global__ void __launch_bounds__(512, kBlocks<Graph>) bc_kernel(const __grid_constant__ BcParams p) {
  const Graph graph(*p.graph);
  const BcState state(p, graph.num_vertices, graph.num_edges);
  GridTeam team(&state.frontier.control->team);
  betweenness(team, graph, state, p.source, p.undirected != 0);
}

}  // namespace hinterland::graph
