#include "graph/sssp.hpp"

#include "core/team.hpp"

namespace hinterland::native {

void sssp(const graph::PathParams& p, WeightKind kind) {
  with_weighted_graph(*p.graph, kind, [&](const auto& graph) {
    using Weight = typename std::decay_t<decltype(graph)>::Weight;
    const graph::PathState<graph::Shortest<Weight>> state(p.keys, p.scratch, {graph.num_vertices, graph.num_edges},
                                                          graph.num_vertices);
    ThreadTeam team;
    best_paths(team, graph, state, p.source, {p.delta, p.light});
  });
}

}  // namespace hinterland::native
