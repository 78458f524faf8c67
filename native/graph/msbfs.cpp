#include "graph/msbfs.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void msbfs(const graph::MsBfsParams& p, int mask_bytes) {
  with_graph(*p.graph, p.incoming, [&](const auto& graph, const auto* incoming) {
    const graph::MsBfsLayout at(graph.num_vertices, graph.num_edges);
    const auto search = [&](auto mask) {
      ThreadTeam team;
      const graph::MsBfsState<decltype(mask)> state(p.levels, p.scratch, at, graph.num_vertices);
      graph::msbfs(team, graph, incoming, state, p.sources, p.num_sources);
    };
    mask_bytes == 8 ? search(uint64_t{}) : search(uint32_t{});
  });
}

}  // namespace hinterland::native
