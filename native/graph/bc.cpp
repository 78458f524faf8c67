#include "graph/bc.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/bc.hpp"

namespace hinterland::native {

void betweenness(const graph::GraphWords& words, int64_t source, int32_t* levels, double* sigma, double* scores, char* scratch,
                 int64_t history_size) {
  with_graph(words, nullptr, [&](const auto& graph, const auto*) {
    const graph::BcLayout at(graph.num_vertices, graph.num_edges, history_size);
    ThreadTeam team;
    graph::betweenness(team, graph, graph::BcState(levels, sigma, scores, scratch, at, graph.num_vertices, history_size), source);
  });
}

}  // namespace hinterland::native
