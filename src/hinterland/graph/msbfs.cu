// Up to 64 breadth-first searches in one cooperative launch.
#include "hinterland/graph/msbfs.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph, class Mask>
__global__ void __launch_bounds__(512, kBlocks<Graph>) msbfs_kernel(const __grid_constant__ MsBfsParams p) {
  const Graph out(*p.graph), in(p.incoming == nullptr ? *p.graph : *p.incoming);
  const MsBfsState<Mask> state(p, out.num_vertices, out.num_edges);
  GridTeam team(&state.frontier.control->team);
  msbfs(team, out, p.incoming == nullptr ? nullptr : &in, state, p.sources, p.num_sources);
}

}  // namespace hinterland::graph
