// PageRank on the CPU.
#include "hinterland/graph/pagerank.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"

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

}  // namespace

void bind_graph_pagerank(nanobind::module_& m) {
  def_layout(m, "pagerank_layout", &graph::PagerankState<float>::control);
  def_loop(m, "pagerank", pagerank, nanobind::arg("real_bytes"));
}

}  // namespace hinterland::native
