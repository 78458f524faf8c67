// All iterations of PageRank in one cooperative launch.
#include "hinterland/graph/pagerank.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

// `incoming` are the lists of in-neighbours, `graph` again for an undirected graph. `personal` may be null. Everything is 0 in
// the first part of `scratch`; contributions and sums need not be set. Scores end up in `sums`.
template <class Graph, class Real>
__global__ void __launch_bounds__(512, 2)
    pagerank_kernel(const GraphWords* graph, const GraphWords* incoming, const PagerankOptions* options, int64_t max_iterations,
                    int64_t by_degree, const Real* personal, Real* contributions, Real* sums, char* scratch) {
  const Graph out(*graph), in(*incoming);
  const PagerankLayout at(in.num_vertices, in.num_edges);
  const PagerankState<Real> state(contributions, sums, personal, *options, scratch, at, in.num_vertices);
  GridTeam team(&state.frontier.control->team);
  pagerank(team, out, in, state, max_iterations, by_degree != 0);
}

}  // namespace hinterland::graph
