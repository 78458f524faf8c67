#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "graph/bfs.hpp"
#include "graph/bind_views.hpp"
#include "hinterland/core/philox.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::BfsParams, graph, incoming, source, parents, levels, scratch);

void bind_graph_bfs(nb::module_& m) {
  m.attr("BFS_RULES") = named<BfsRule>({{"source", BfsRule::kSource},
                                        {"reached", BfsRule::kReached},
                                        {"tree_level", BfsRule::kTreeLevel},
                                        {"graph", BfsRule::kGraph},
                                        {"closed", BfsRule::kClosed},
                                        {"edge_level", BfsRule::kEdgeLevel},
                                        {"tree_edge", BfsRule::kTreeEdge}});
  m.attr("STEP_RECORDS") = graph::kStepRecords;
  m.attr("NO_VERTEX") = int64_t{graph::FrontierControl::kNone};
  m.attr("PAGE_ELEMENTS") = int64_t{memory::kPageElements};
  m.def(
      "draw_below",
      [](uint64_t bound, int64_t count, uint64_t seed) {
        std::vector<uint64_t> drawn;
        for (int64_t i = 0; i < count; ++i) drawn.push_back(Philox{seed}.below(bound, i));
        return drawn;
      },
      nb::arg("bound"), nb::arg("count"), nb::arg("seed"), "Numbers below a bound, drawn by Philox: sources of searches.");
  m.def(
      "bfs_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::BfsLayout at(num_vertices, num_edges);
        return scratch_layout(at, at.frontier);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"));
  def_loop(m, "bfs", bfs, nb::arg("id_bytes"));
  def_native(m, "verify_bfs", verify_bfs, nb::arg("graph"), nb::arg("source"), nb::arg("levels"), nb::arg("parents"));
}

}  // namespace hinterland::native
