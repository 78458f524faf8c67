#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/pagerank.hpp"
#include "hinterland/graph/pagerank.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_graph_pagerank(nb::module_& m) {
  m.def(
      "pagerank_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::PagerankLayout at(num_vertices, num_edges);
        return std::pair(scratch_layout(at, at.frontier), at.control);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"),
      "Scratch memory of a run, and where in it iterations (int64) and error (float64) lie.");
  m.def(
      "pagerank",
      [](uintptr_t graph, uintptr_t incoming, uintptr_t options, int64_t max_iterations, int64_t by_degree,
         uintptr_t personal, uintptr_t contributions, uintptr_t sums, uintptr_t scratch, int real_bytes) {
        GilReleased released;
        pagerank(*words(graph), *words(incoming), *reinterpret_cast<const graph::PagerankOptions*>(options), max_iterations,
                 by_degree != 0, reinterpret_cast<const void*>(personal), reinterpret_cast<void*>(contributions),
                 reinterpret_cast<void*>(sums), real_bytes, reinterpret_cast<char*>(scratch));
      },
      nb::arg("graph"), nb::arg("incoming"), nb::arg("options"), nb::arg("max_iterations"), nb::arg("by_degree"),
      nb::arg("personal"),
      nb::arg("contributions"), nb::arg("sums"), nb::arg("scratch"), nb::arg("real_bytes"));
}

}  // namespace hinterland::native
