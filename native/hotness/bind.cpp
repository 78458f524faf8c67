#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "hotness/propagate.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_hotness(nb::module_& m) {
  m.def(
      "propagate_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::FrontierLayout at(num_vertices, num_edges);
        return scratch_layout(at, at);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"), "Scratch memory of a step.");
  m.def(
      "propagate",
      [](uintptr_t graph, uintptr_t values, uintptr_t sums, int64_t pull, uintptr_t scratch) {
        GilReleased released;
        propagate(*words(graph), reinterpret_cast<const double*>(values), reinterpret_cast<double*>(sums), pull != 0,
                  reinterpret_cast<char*>(scratch));
      },
      nb::arg("graph"), nb::arg("values"), nb::arg("sums"), nb::arg("pull"), nb::arg("scratch"));
}

}  // namespace hinterland::native
