#include "graph/sssp.hpp"

#include "core/team.hpp"
#include "hinterland/graph/sswp.hpp"

namespace hinterland::native {

namespace {

template <template <class> class Rules>
void paths(const graph::PathParams& p, WeightKind kind) {
  with_weighted_graph(*p.graph, kind, [&](const auto& graph) {
    using Weight = typename std::decay_t<decltype(graph)>::Weight;
    const graph::PathState<Rules<Weight>> state(p.keys, p.scratch, {graph.num_vertices, graph.num_edges}, graph.num_vertices);
    ThreadTeam team;
    best_paths(team, graph, state, p.source, {p.delta, p.light});
  });
}

}  // namespace

void sssp(const graph::PathParams& params, WeightKind kind) { paths<graph::Shortest>(params, kind); }
void sswp(const graph::PathParams& params, WeightKind kind) { paths<graph::Widest>(params, kind); }

}  // namespace hinterland::native
