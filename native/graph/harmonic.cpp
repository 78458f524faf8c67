// Harmonic centrality on the CPU.
#include "hinterland/graph/harmonic.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::HarmonicParams, graph, incoming, sources, num_sources, scores, scratch);

namespace {

void harmonic(const graph::HarmonicParams& p) {
  with_graph(*p.graph, p.incoming, [&](const auto& graph, const auto* incoming) {
    ThreadTeam team;
    const graph::HarmonicState state(p, graph.num_vertices, graph.num_edges);
    graph::harmonic(team, graph, incoming, state, p.sources, p.num_sources);
  });
}

}  // namespace

const Binding graph_harmonic([](nanobind::module_& m) { def_loop(m, "harmonic", harmonic); });

}  // namespace hinterland::native
