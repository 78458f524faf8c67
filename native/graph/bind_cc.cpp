#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/cc.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::ComponentsParams, graph, incoming, reread, labels, scratch);
HINTERLAND_STRUCT(graph::ComponentsControl, count, padding0, rarest, padding1);

void bind_graph_cc(nb::module_& m) {
  nb::dict rules;
  rules["smallest"] = static_cast<int64_t>(ComponentsRule::kSmallest);
  rules["graph"] = static_cast<int64_t>(ComponentsRule::kGraph);
  rules["edge"] = static_cast<int64_t>(ComponentsRule::kEdge);
  rules["connected"] = static_cast<int64_t>(ComponentsRule::kConnected);
  m.attr("COMPONENTS_RULES") = rules;
  m.def(
      "components_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::ComponentsLayout at(num_vertices, num_edges);
        return std::pair(scratch_layout(at, at.frontier), at.control);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"), "Scratch memory of a run, and where in it ComponentsControl lies.");
  def_loop(m, "connected_components", connected_components, nb::arg("id_bytes"));
  m.def(
      "verify_components",
      [](uintptr_t graph, uintptr_t labels) {
        GilReleased released;
        const ComponentsFinding finding = verify_components(*words(graph), reinterpret_cast<const int64_t*>(labels));
        return std::pair(static_cast<int64_t>(finding.rule), finding.position);
      },
      nb::arg("graph"), nb::arg("labels"));
}

}  // namespace hinterland::native
