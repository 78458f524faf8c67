#include "graph/pagerank.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void pagerank(const graph::PagerankParams& p, int real_bytes) {
  with_graph(*p.graph, p.incoming, [&](const auto& graph, const auto* incoming) {
    const graph::PagerankLayout at(incoming->num_vertices, incoming->num_edges);
    const auto run = [&]<class Real>(Real* contributions) {
      ThreadTeam team;
      const graph::PagerankState<Real> state(contributions, static_cast<Real*>(p.sums), static_cast<const Real*>(p.personal),
                                             p.options, p.scratch, at, incoming->num_vertices);
      graph::pagerank(team, graph, *incoming, state, p.max_iterations, p.by_degree != 0);
    };
    real_bytes == 8 ? run(static_cast<double*>(p.contributions)) : run(static_cast<float*>(p.contributions));
  });
}

}  // namespace hinterland::native
