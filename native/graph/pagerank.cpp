// PageRank on the CPU.
#include "hinterland/graph/pagerank.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"
#include "graph/entries.hpp"
#include "graph/findings.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::PagerankOptions, damping, tolerance);
HINTERLAND_STRUCT(graph::PagerankParams, graph, incoming, options, max_iterations, undirected, personal, contributions, others,
                  sums, scratch);
HINTERLAND_STRUCT(graph::Relaxation, reach, weight, square);
HINTERLAND_STRUCT(graph::PagerankTotals, error, square, dangling, padding);
HINTERLAND_STRUCT(graph::PagerankControl, iterations, final_error, dangling_share, relaxation, padding, totals);

namespace {

// real_bytes (4 or 8) is the width of a number.
void pagerank(const graph::PagerankParams& p, int real_bytes) {
  with_graph(*p.graph, p.incoming, [&](const auto& graph, const auto* incoming) {
    const auto run = [&]<class Real>() {
      ThreadTeam team;
      const graph::PagerankState<Real> state(p, incoming->num_vertices, incoming->num_edges);
      graph::pagerank(team, graph, *incoming, state, p.max_iterations, p.undirected != 0);
    };
    real_bytes == 8 ? run.template operator()<double>() : run.template operator()<float>();
  });
}

// The walk's next step: each vertex's share is added to what its neighbours have so far. Where the first edge is that leads to
// no vertex, after a 1; or zeros.
Finding follow_walk(const graph::GraphWords& words, const double* shares, double* after) {
  enum class Rule : int64_t { kNone, kGraph };
  FirstBroken<Rule, Rule::kGraph> found;
  with_lists_of_any_kind(words, [&](const auto& graph) {
    for_each_vertex(graph, [&](int64_t u) {
      for_each_entry(graph, u, [&](int64_t i, int64_t v) {
        if (graph.has(v))
          atomic_add(after[v], shares[u]);
        else
          found.report(Rule::kGraph, i);
      });
    });
  });
  return found.finding();
}

}  // namespace

const Binding graph_pagerank([](nanobind::module_& m) {
  def_layout(m, "pagerank_layout", &graph::PagerankState<float>::control);
  def_loop(m, "pagerank", pagerank, nanobind::arg("real_bytes"));
  def_native(m, "follow_walk", follow_walk, nanobind::arg("graph"), nanobind::arg("shares"), nanobind::arg("after"));
});

}  // namespace hinterland::native
