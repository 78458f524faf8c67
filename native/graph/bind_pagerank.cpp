#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/pagerank.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::PagerankOptions, damping, tolerance);
HINTERLAND_STRUCT(graph::PagerankParams, graph, incoming, options, max_iterations, by_degree, personal, contributions, sums,
                  scratch);
HINTERLAND_STRUCT(graph::PagerankControl, iterations, final_error, padding0, error, padding1, dangling, padding2,
                  dangling_share, padding3);

void bind_graph_pagerank(nb::module_& m) {
  m.def(
      "pagerank_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::PagerankLayout at(num_vertices, num_edges);
        return std::pair(scratch_layout(at, at.frontier), at.control);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"), "Scratch memory of a run, and where in it PagerankControl lies.");
  def_loop(m, "pagerank", pagerank, nb::arg("real_bytes"));
}

}  // namespace hinterland::native
