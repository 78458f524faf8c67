// Connected components in one cooperative launch.
#include "hinterland/graph/cc.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/storage/on_device.hpp"

namespace hinterland::graph {

template <class Graph, class Id>
__global__ void __launch_bounds__(512, kBlocks<Graph>) cc_kernel(const __grid_constant__ ComponentsParams p) {
  const Graph out(*p.graph), in(p.incoming == nullptr ? *p.graph : *p.incoming);
  const ComponentsState<Id> state(p, out.num_vertices, out.num_edges);
  GridTeam team(&state.frontier.control->team);
  connected_components(team, out, p.incoming == nullptr ? nullptr : &in, state, p.reread != 0);
}

}  // namespace hinterland::graph
