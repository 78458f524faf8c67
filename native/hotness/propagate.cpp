// A step of the hotness scores on the CPU.
#include "hinterland/hotness/propagate.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(hotness::PropagateParams, graph, values, sums, pull, scratch);

namespace {

void propagate(const hotness::PropagateParams& p) {
  with_lists(*p.graph, [&](const auto& graph) {
    graph::Scratch scratch{p.scratch};
    const graph::Frontier frontier(scratch, graph.num_vertices, graph.num_edges);
    ThreadTeam team;
    hotness::propagate(team, graph, frontier, p.values, p.sums, p.pull != 0);
  });
}

}  // namespace

const Binding hotness([](nanobind::module_& m) { def_loop(m, "propagate", propagate); });

}  // namespace hinterland::native
