#include "graph/bfs.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void bfs(const graph::BfsParams& p, int id_bytes) {
  with_graph(*p.graph, p.incoming, [&](const auto& graph, const auto* incoming) {
    const graph::BfsLayout at(graph.num_vertices, graph.num_edges);
    const auto search = [&](auto* parents) {
      ThreadTeam team;
      graph::bfs(team, graph, incoming, graph::BfsState(parents, p.levels, p.scratch, at, graph.num_vertices), p.source);
    };
    id_bytes == 8 ? search(static_cast<uint64_t*>(p.parents)) : search(static_cast<uint32_t*>(p.parents));
  });
}

}  // namespace hinterland::native
