#include "hotness/propagate.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void propagate(const hotness::PropagateParams& p) {
  with_graph_of<Sources>(*p.graph, nullptr, [&](const auto& graph, const auto*) {
    const graph::FrontierLayout at(graph.num_vertices, graph.num_edges);
    ThreadTeam team;
    hotness::propagate(team, graph, graph::Frontier(p.scratch, at, graph.num_vertices), p.values, p.sums, p.pull != 0);
  });
}

}  // namespace hinterland::native
