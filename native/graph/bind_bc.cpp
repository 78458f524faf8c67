#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "graph/bc.hpp"
#include "graph/bind_views.hpp"
#include "hinterland/graph/bc.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_graph_bc(nb::module_& m) {
  m.def(
      "bc_layout",
      [](int64_t num_vertices, int64_t num_edges, int64_t history_size) {
        const graph::BcLayout at(num_vertices, num_edges, history_size);
        return std::tuple(scratch_layout(at, at.frontier), at.overflow);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"), nb::arg("history_size"));
  m.def(
      "betweenness",
      [](uintptr_t graph, int64_t source, uintptr_t levels, uintptr_t sigma, uintptr_t scores, uintptr_t scratch,
         int64_t history_size) {
        GilReleased released;
        betweenness(*words(graph), source, reinterpret_cast<int32_t*>(levels), reinterpret_cast<double*>(sigma),
                    reinterpret_cast<double*>(scores), reinterpret_cast<char*>(scratch), history_size);
      },
      nb::arg("graph"), nb::arg("source"), nb::arg("levels"), nb::arg("sigma"), nb::arg("scores"), nb::arg("scratch"),
      nb::arg("history_size"));
}

}  // namespace hinterland::native
