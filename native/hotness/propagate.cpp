#include "hotness/propagate.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"
#include "hinterland/hotness/propagate.hpp"

namespace hinterland::native {

void propagate(const graph::GraphWords& words, const double* values, double* sums, bool pull, char* scratch) {
  with_graph(words, nullptr, [&](const auto& graph, const auto*) {
    const graph::FrontierLayout at(graph.num_vertices, graph.num_edges);
    ThreadTeam team;
    hotness::propagate(team, graph, graph::Frontier(scratch, at, graph.num_vertices), values, sums, pull);
  });
}

}  // namespace hinterland::native
