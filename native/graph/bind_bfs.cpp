#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
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
  nb::dict rules;
  rules["source"] = static_cast<int64_t>(BfsRule::kSource);
  rules["reached"] = static_cast<int64_t>(BfsRule::kReached);
  rules["tree_level"] = static_cast<int64_t>(BfsRule::kTreeLevel);
  rules["graph"] = static_cast<int64_t>(BfsRule::kGraph);
  rules["closed"] = static_cast<int64_t>(BfsRule::kClosed);
  rules["edge_level"] = static_cast<int64_t>(BfsRule::kEdgeLevel);
  rules["tree_edge"] = static_cast<int64_t>(BfsRule::kTreeEdge);
  m.attr("BFS_RULES") = rules;
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
  m.def(
      "verify_bfs",
      [](uintptr_t graph, int64_t source, uintptr_t levels, uintptr_t parents) {
        GilReleased released;
        const BfsFinding finding = verify_bfs(*words(graph), source, reinterpret_cast<const int32_t*>(levels),
                                              reinterpret_cast<const int64_t*>(parents));
        return std::pair(static_cast<int64_t>(finding.rule), finding.position);
      },
      nb::arg("graph"), nb::arg("source"), nb::arg("levels"), nb::arg("parents"));
}

}  // namespace hinterland::native
