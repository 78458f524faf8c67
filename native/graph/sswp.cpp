#include "hinterland/graph/sswp.hpp"

#include "core/team.hpp"
#include "graph/sssp.hpp"

namespace hinterland::native {

void sswp(const graph::GraphWords& words, WeightKind kind, int64_t source, void* keys, char* scratch, double delta, int64_t light) {
  with_weighted_graph(words, kind, [&](const auto& graph) {
    using Weight = typename std::decay_t<decltype(graph)>::Weight;
    const graph::PathState<graph::Widest<Weight>> state(keys, scratch, {graph.num_vertices, graph.num_edges}, graph.num_vertices);
    ThreadTeam team;
    best_paths(team, graph, state, source, {delta, light});
  });
}

}  // namespace hinterland::native
