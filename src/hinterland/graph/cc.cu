// Connected components in one cooperative launch.
#include "hinterland/graph/cc.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

// `incoming` is null, `graph` again for an undirected graph, or the lists of in-neighbours. Everything is 0 in the first part of
// `scratch`; labels need not be set.
template <class Graph, class Id>
__global__ void __launch_bounds__(512, 2)
    cc_kernel(const GraphWords* graph, const GraphWords* incoming, int64_t reread, Id* labels, char* scratch) {
  const Graph out(*graph), in(incoming == nullptr ? *graph : *incoming);
  const ComponentsLayout at(out.num_vertices, out.num_edges);
  const ComponentsState<Id> state(labels, scratch, at, out.num_vertices);
  GridTeam team(&state.frontier.control->team);
  connected_components(team, out, incoming == nullptr ? nullptr : &in, state, reread != 0);
}

}  // namespace hinterland::graph
