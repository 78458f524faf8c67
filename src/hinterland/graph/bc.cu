// What one source adds to betweenness centrality, in one cooperative launch.
#include "hinterland/graph/bc.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

// Everything is 0 in the first part of `scratch` and in `sigma`, and -1 in `levels`.
template <class Graph>
__global__ void __launch_bounds__(512, 2)
    bc_kernel(const GraphWords* words, int64_t source, int32_t* levels, double* sigma, double* scores, char* scratch,
              int64_t history_size) {
  const Graph graph(*words);
  const BcLayout at(graph.num_vertices, graph.num_edges, history_size);
  const BcState state(levels, sigma, scores, scratch, at, graph.num_vertices, history_size);
  GridTeam team(&state.frontier.control->team);
  betweenness(team, graph, state, source);
}

}  // namespace hinterland::graph
