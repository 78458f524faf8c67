// Every list of a graph once, on the CPU.
#include "hinterland/graph/scan.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::ScanParams, graph, scratch, sum);

namespace {

void scan_lists(const graph::ScanParams& p) {
  with_graph(*p.graph, nullptr, [&](const auto& graph, const auto*) {
    graph::Scratch scratch{p.scratch};
    ThreadTeam team;
    graph::scan_lists(team, graph, graph::Frontier(scratch, graph.num_vertices, graph.num_edges), p.sum);
  });
}

}  // namespace

const Binding graph_scan([](nanobind::module_& m) {
  m.def(
      "frontier_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        graph::Scratch none{nullptr};
        const graph::Frontier frontier(none, num_vertices, num_edges);
        return scratch_layout(none, frontier);
      },
      nanobind::arg("num_vertices"), nanobind::arg("num_edges"), "Scratch memory of one step.");
  def_loop(m, "scan_lists", scan_lists);
});

}  // namespace hinterland::native
