// A whole breadth-first search in one cooperative launch: the CPU decides nothing between levels.
#include "hinterland/graph/bfs.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

// `graph` and `incoming` (null: only push) describe lists in any memory that the GPU addresses. Everything is 0 in the first
// part of `scratch`, and -1 in `parents` and `levels`.
template <class Graph, class Id>
__global__ void __launch_bounds__(512, 2)
    bfs_kernel(const GraphWords* graph, const GraphWords* incoming, int64_t source, Id* parents, int32_t* levels, char* scratch) {
  const Graph out(*graph), in(incoming == nullptr ? *graph : *incoming);
  const BfsLayout at(out.num_vertices, out.num_edges);
  const BfsState<Id> state(parents, levels, scratch, at, out.num_vertices);
  GridTeam team(&state.frontier.control->team);
  bfs(team, out, incoming == nullptr ? nullptr : &in, state, source);
}

}  // namespace hinterland::graph
