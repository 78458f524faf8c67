// Up to 64 breadth-first searches in one cooperative launch.
#include "hinterland/graph/msbfs.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

// `graph` and `incoming` (null: only push) describe lists in any memory that the GPU addresses. Everything is 0 in the first
// part of `scratch`, and -1 in `levels`, which may be null.
template <class Graph, class Mask>
__global__ void __launch_bounds__(512, 2)
    msbfs_kernel(const GraphWords* graph, const GraphWords* incoming, const int64_t* sources, int64_t num_sources,
                 int32_t* levels, char* scratch) {
  const Graph out(*graph), in(incoming == nullptr ? *graph : *incoming);
  const MsBfsLayout at(out.num_vertices, out.num_edges);
  const MsBfsState<Mask> state(levels, scratch, at, out.num_vertices);
  GridTeam team(&state.frontier.control->team);
  msbfs(team, out, incoming == nullptr ? nullptr : &in, state, sources, num_sources);
}

}  // namespace hinterland::graph
