#include "graph/bfs.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/bfs.hpp"

namespace hinterland::native {

void bfs(const graph::GraphWords& out, const graph::GraphWords* in, int64_t source, void* parents, int id_bytes, int32_t* levels,
         char* scratch) {
  with_graph(out, in, [&](const auto& graph, const auto* incoming) {
    const graph::BfsLayout at(graph.num_vertices, graph.num_edges);
    ThreadTeam team;
    if (id_bytes == 8)
      graph::bfs(team, graph, incoming,
                      graph::BfsState<uint64_t>(static_cast<uint64_t*>(parents), levels, scratch, at, graph.num_vertices), source);
    else
      graph::bfs(team, graph, incoming,
                      graph::BfsState<uint32_t>(static_cast<uint32_t*>(parents), levels, scratch, at, graph.num_vertices), source);
  });
}

}  // namespace hinterland::native
