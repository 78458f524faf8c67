#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/scan.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::ScanParams, graph, scratch, sum);

void bind_graph_scan(nb::module_& m) {
  m.def(
      "frontier_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::FrontierLayout at(num_vertices, num_edges);
        return scratch_layout(at, at);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"), "Scratch memory of one step.");
  def_loop(m, "scan_lists", scan_lists);
}

}  // namespace hinterland::native
