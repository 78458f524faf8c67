#include "graph/scan.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void scan_lists(const graph::ScanParams& p) {
  with_graph(*p.graph, nullptr, [&](const auto& graph, const auto*) {
    const graph::FrontierLayout at(graph.num_vertices, graph.num_edges);
    ThreadTeam team;
    graph::scan_lists(team, graph, graph::Frontier(p.scratch, at, graph.num_vertices), p.sum);
  });
}

}  // namespace hinterland::native
