// Multi-source breadth-first search on the CPU.
#include "hinterland/graph/msbfs.hpp"

#include "core/team.hpp"
#include "graph/bind_views.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::MsBfsParams, graph, incoming, sources, num_sources, levels, scratch);
HINTERLAND_STRUCT(graph::MsBfsControl, reached, distance_sum, eccentricity, seen_edges, new_edges, found, padding, full,
                  full_edges, padding_too);

namespace {

// mask_bytes (4 or 8) is the width of a mask.
void msbfs(const graph::MsBfsParams& p, int mask_bytes) {
  with_graph(*p.graph, p.incoming, [&](const auto& graph, const auto* incoming) {
    const auto search = [&]<class Mask>() {
      ThreadTeam team;
      const graph::MsBfsState<Mask> state(p, graph.num_vertices, graph.num_edges);
      graph::msbfs(team, graph, incoming, state, p.sources, p.num_sources);
    };
    mask_bytes == 8 ? search.template operator()<uint64_t>() : search.template operator()<uint32_t>();
  });
}

}  // namespace

const Binding graph_msbfs([](nanobind::module_& m) {
  m.attr("MSBFS_SOURCES") = graph::kMostSources;
  def_layout(m, "msbfs_layout", &graph::MsBfsState<uint64_t>::control);
  def_loop(m, "msbfs", msbfs, nanobind::arg("mask_bytes"));
});

}  // namespace hinterland::native
