// The adjacency matrix times a vector, on the CPU.
#include "hinterland/graph/spmv.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::SpmvParams, graph, x, y, scratch);

namespace {

// Without weights where `kind` has no bytes.
void spmv(const graph::SpmvParams& p, WeightKind kind) {
  const auto run = [&](const auto& graph) {
    graph::Scratch scratch{p.scratch};
    const graph::Frontier frontier(scratch, graph.num_vertices, graph.num_edges);
    ThreadTeam team;
    graph::spmv(team, graph, frontier, p.x, p.y);
  };
  kind.bytes == 0 ? with_lists(*p.graph, run) : with_weighted_graph(*p.graph, kind, run);
}

}  // namespace

const Binding graph_spmv([](nanobind::module_& m) {
  def_loop(m, "spmv", spmv, nanobind::arg("weight_bytes"), nanobind::arg("weight_order"));
});

}  // namespace hinterland::native
