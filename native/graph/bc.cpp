// Betweenness centrality on the CPU.
#include "hinterland/graph/bc.hpp"

#include "core/team.hpp"
#include "graph/bc_lists.hpp"
#include "graph/bind_views.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::BcParams, graph, source, undirected, levels, sigma, scores, keeps, scratch, history_size);
HINTERLAND_STRUCT(BcListsParams, graph, sources, count, undirected, of_edges, scores, broken, overflow);

namespace {

void betweenness(const graph::BcParams& p) {
  with_graph(*p.graph, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    const graph::BcState state(p, graph.num_vertices, graph.num_edges);
    graph::betweenness(team, graph, state, p.source, p.undirected != 0);
  });
}

void betweenness_of_all(const BcListsParams& p) {
  with_lists(*p.graph, [&](const auto& graph) { betweenness_by_lists(graph, p); });
}

}  // namespace

const Binding graph_bc([](nanobind::module_& m) {
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
  def_loop(m, "betweenness_by_lists", betweenness_of_all);
  m.attr("BC_SOURCES_TOGETHER") = kSourcesTogether;
});

}  // namespace hinterland::native
