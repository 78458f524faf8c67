// All iterations of PageRank in one cooperative launch.
#include "hinterland/graph/pagerank.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph, class Real>
__global__ void __launch_bounds__(512, kBlocks<Graph>) pagerank_kernel(const __grid_constant__ PagerankParams p) {
  const Graph out(*p.graph), in(*p.incoming);
  const PagerankState<Real> state(p, in.num_vertices, in.num_edges);
  GridTeam team(&state.frontier.control->team);
  pagerank(team, out, in, state, p.max_iterations, p.undirected != 0);
}

}  // namespace hinterland::graph
