#include "bindings.hpp"
#include "graph/bc.hpp"
#include "graph/bind_views.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::BcParams, graph, source, levels, sigma, scores, scratch, history_size);

void bind_graph_bc(nb::module_& m) {
  m.def(
      "bc_layout",
      [](int64_t num_vertices, int64_t num_edges, int64_t history_size) {
        const graph::BcLayout at(num_vertices, num_edges, history_size);
        return std::tuple(scratch_layout(at, at.frontier), at.overflow);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"), nb::arg("history_size"));
  def_loop(m, "betweenness", betweenness);
}

}  // namespace hinterland::native
