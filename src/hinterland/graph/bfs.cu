// A whole breadth-first search in one cooperative launch: the CPU decides nothing between levels.
#include "hinterland/graph/bfs.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph, class Id>
__global__ void __launch_bounds__(512, kBlocks<Graph>) bfs_kernel(const __grid_constant__ BfsParams p) {
  const Graph out(*p.graph), in(p.incoming == nullptr ? *p.graph : *p.incoming);
  const BfsState<Id> state(p, out.num_vertices, out.num_edges);
  GridTeam team(&state.frontier.control->team);
  bfs(team, out, p.incoming == nullptr ? nullptr : &in, state, p.source);
}

}  // namespace hinterland::graph
