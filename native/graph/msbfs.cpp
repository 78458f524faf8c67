#include "graph/msbfs.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/msbfs.hpp"

namespace hinterland::native {

void msbfs(const graph::GraphWords& out, const graph::GraphWords* in, const int64_t* sources, int64_t num_sources, int32_t* levels,
           char* scratch, int mask_bytes) {
  with_graph(out, in, [&](const auto& graph, const auto* incoming) {
    const graph::MsBfsLayout at(graph.num_vertices, graph.num_edges);
    ThreadTeam team;
    const auto search = [&](auto state) { graph::msbfs(team, graph, incoming, state, sources, num_sources); };
    if (mask_bytes == 8)
      search(graph::MsBfsState<uint64_t>(levels, scratch, at, graph.num_vertices));
    else
      search(graph::MsBfsState<uint32_t>(levels, scratch, at, graph.num_vertices));
  });
}

}  // namespace hinterland::native
