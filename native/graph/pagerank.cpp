#include "graph/pagerank.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/pagerank.hpp"

namespace hinterland::native {

void pagerank(const graph::GraphWords& out, const graph::GraphWords& in, const graph::PagerankOptions& options, int64_t max_iterations,
              bool by_degree, const void* personal, void* contributions, void* sums, int real_bytes, char* scratch) {
  with_graph(out, &in, [&](const auto& graph, const auto* incoming) {
    const graph::PagerankLayout at(incoming->num_vertices, incoming->num_edges);
    ThreadTeam team;
    const auto run = [&]<class Real>(Real* typed) {
      const graph::PagerankState<Real> state(typed, static_cast<Real*>(sums), static_cast<const Real*>(personal), options, scratch, at,
                                      incoming->num_vertices);
      graph::pagerank(team, graph, *incoming, state, max_iterations, by_degree);
    };
    if (real_bytes == 8)
      run(static_cast<double*>(contributions));
    else
      run(static_cast<float*>(contributions));
  });
}

}  // namespace hinterland::native
