// Betweenness centrality on the CPU.
#include "hinterland/graph/bc.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::BcParams, graph, source, undirected, levels, sigma, scores, keeps, scratch, history_size);

namespace {

void betweenness(const graph::BcParams& p) {
  with_graph(*p.graph, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    const graph::BcState state(p, graph.num_vertices, graph.num_edges);
    graph::betweenness(team, graph, state, p.source, p.undirected != 0);
  });
}

}  // namespace

void bind_graph_bc(nanobind::module_& m) {
  m.def(
      "bc_layout",
      [](int64_t num_vertices, int64_t num_edges, int64_t history_size) {
        graph::BcParams params{};
        params.history_size = history_size;
        const graph::BcState none(params, num_vertices, num_edges);
        return std::pair(scratch_layout(none.scratch, none.frontier), offset_of(none.overflow));
      },
      nanobind::arg("num_vertices"), nanobind::arg("num_edges"), nanobind::arg("history_size"));
  def_loop(m, "betweenness", betweenness);
}

}  // namespace hinterland::native
