#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/cc.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::ComponentsParams, graph, incoming, reread, labels, scratch);
HINTERLAND_STRUCT(graph::ComponentsControl, count, padding0, rarest, padding1);

void bind_graph_cc(nb::module_& m) {
  m.attr("COMPONENTS_RULES") = named<ComponentsRule>({{"smallest", ComponentsRule::kSmallest},
                                                      {"graph", ComponentsRule::kGraph},
                                                      {"edge", ComponentsRule::kEdge},
                                                      {"connected", ComponentsRule::kConnected}});
  def_layout(m, "components_layout", &graph::ComponentsLayout::control);
  def_loop(m, "connected_components", connected_components, nb::arg("id_bytes"));
  m.def(
      "verify_components",
      [](uintptr_t graph, uintptr_t labels) {
        GilReleased released;
        const ComponentsFinding finding =
            verify_components(*reinterpret_cast<const graph::GraphWords*>(graph), reinterpret_cast<const int64_t*>(labels));
        return std::pair(static_cast<int64_t>(finding.rule), finding.position);
      },
      nb::arg("graph"), nb::arg("labels"));
}

}  // namespace hinterland::native
