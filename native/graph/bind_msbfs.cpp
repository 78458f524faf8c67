#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/msbfs.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::MsBfsParams, graph, incoming, sources, num_sources, levels, scratch);
HINTERLAND_STRUCT(graph::MsBfsControl, reached, distance_sum, eccentricity, seen_edges, new_edges, found, padding, full,
                  full_edges, padding_too);

void bind_graph_msbfs(nb::module_& m) {
  m.attr("MSBFS_SOURCES") = graph::kMostSources;
  def_layout(m, "msbfs_layout", &graph::MsBfsLayout::control);
  def_loop(m, "msbfs", msbfs, nb::arg("mask_bytes"));
}

}  // namespace hinterland::native
