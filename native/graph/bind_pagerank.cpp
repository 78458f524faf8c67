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
  def_layout(m, "pagerank_layout", &graph::PagerankLayout::control);
  def_loop(m, "pagerank", pagerank, nb::arg("real_bytes"));
}

}  // namespace hinterland::native
