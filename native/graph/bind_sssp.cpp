#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/sssp.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::PathParams, graph, source, keys, scratch, delta, light);
HINTERLAND_STRUCT(graph::PathControl, least, buckets, padding);

void bind_graph_sssp(nb::module_& m) {
  m.attr("PATH_RULES") = named<PathRule>({{"source", PathRule::kSource},
                                          {"range", PathRule::kRange},
                                          {"graph", PathRule::kGraph},
                                          {"edge", PathRule::kEdge},
                                          {"tight", PathRule::kTight}});
  def_layout(m, "path_layout", &graph::PathLayout::path);
  def_loop(m, "sssp", sssp, nb::arg("weight_bytes"), nb::arg("weight_order"));
  def_loop(m, "sswp", sswp, nb::arg("weight_bytes"), nb::arg("weight_order"));
  def_native(m, "verify_paths", verify_paths, nb::arg("graph"), nb::arg("weight_bytes"), nb::arg("weight_order"),
             nb::arg("widest"), nb::arg("source"), nb::arg("found"));
}

}  // namespace hinterland::native
