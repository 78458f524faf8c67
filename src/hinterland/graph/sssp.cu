// All shortest paths from one vertex in one cooperative launch: the CPU decides nothing between steps.
#include "hinterland/graph/sssp.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

// `graph` describes lists and weights in any memory that the GPU addresses. Everything is 0 in the first part of `scratch`,
// and unset in `keys`. `delta` are the bits of a double.
template <class Graph>
__global__ void __launch_bounds__(512, 2)
    sssp_kernel(const GraphWords* words, int64_t source, void* keys, char* scratch, int64_t delta, int64_t light) {
  const Graph graph(*words);
  const PathState<Shortest<typename Graph::Weight>> state(keys, scratch, {graph.num_vertices, graph.num_edges}, graph.num_vertices);
  GridTeam team(&state.frontier.control->team);
  best_paths(team, graph, state, source, {stdlib::bit_cast<double>(delta), light});
}

}  // namespace hinterland::graph
