#include "graph/bc.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void betweenness(const graph::BcParams& p) {
  with_graph(*p.graph, nullptr, [&](const auto& graph, const auto*) {
    const graph::BcLayout at(graph.num_vertices, graph.num_edges, p.history_size);
    ThreadTeam team;
    const graph::BcState state(p.levels, p.sigma, p.scores, p.scratch, at, graph.num_vertices, p.history_size);
    graph::betweenness(team, graph, state, p.source);
  });
}

}  // namespace hinterland::native
