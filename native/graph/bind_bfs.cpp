#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "graph/bfs.hpp"
#include "hinterland/core/philox.hpp"
#include "hinterland/graph/bfs.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

BfsArrays arrays(uintptr_t offsets, uintptr_t edges, int edge_bytes, int64_t num_vertices, int64_t num_edges) {
  return {reinterpret_cast<const int64_t*>(offsets), reinterpret_cast<const void*>(edges), edge_bytes, num_vertices,
          num_edges};
}

}  // namespace

void bind_graph_bfs(nb::module_& m) {
  m.attr("BFS_LEVEL_RECORDS") = kLevelRecords;
  m.attr("BFS_CONTROL_BYTES") = static_cast<int64_t>(sizeof(BfsControl));
  nb::dict rules;
  rules["source"] = static_cast<int64_t>(BfsRule::kSource);
  rules["reached"] = static_cast<int64_t>(BfsRule::kReached);
  rules["tree_level"] = static_cast<int64_t>(BfsRule::kTreeLevel);
  rules["graph"] = static_cast<int64_t>(BfsRule::kGraph);
  rules["closed"] = static_cast<int64_t>(BfsRule::kClosed);
  rules["edge_level"] = static_cast<int64_t>(BfsRule::kEdgeLevel);
  rules["tree_edge"] = static_cast<int64_t>(BfsRule::kTreeEdge);
  m.attr("BFS_RULES") = rules;
  m.def(
      "draw_below",
      [](uint64_t bound, int64_t count, uint64_t seed) {
        std::vector<uint64_t> drawn;
        for (int64_t i = 0; i < count; ++i) drawn.push_back(Philox{seed}.below(bound, i));
        return drawn;
      },
      nb::arg("bound"), nb::arg("count"), nb::arg("seed"), "Numbers below a bound, drawn by Philox: sources of searches.");
  m.def(
      "bfs_scratch",
      [](int64_t num_vertices, int64_t num_edges) {
        const BfsScratch at(num_vertices, num_edges);
        return std::pair(at.bytes, at.zeroed);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"),
      "Bytes of scratch memory of a traversal, and how many at its beginning must be zero.");
  m.def(
      "bfs_top_down",
      [](uintptr_t offsets, uintptr_t edges, int edge_bytes, int64_t num_vertices, int64_t num_edges, int64_t source,
         uintptr_t parents, int id_bytes, uintptr_t levels, uintptr_t scratch) {
        nb::gil_scoped_release released;
        bfs_top_down(arrays(offsets, edges, edge_bytes, num_vertices, num_edges), source,
                     reinterpret_cast<void*>(parents), id_bytes, reinterpret_cast<int32_t*>(levels),
                     reinterpret_cast<char*>(scratch));
      },
      nb::arg("offsets"), nb::arg("edges"), nb::arg("edge_bytes"), nb::arg("num_vertices"), nb::arg("num_edges"),
      nb::arg("source"), nb::arg("parents"), nb::arg("id_bytes"), nb::arg("levels"), nb::arg("scratch"));
  m.def(
      "verify_bfs",
      [](uintptr_t offsets, uintptr_t edges, int edge_bytes, int64_t num_vertices, int64_t num_edges, int64_t source,
         uintptr_t levels, uintptr_t parents) {
        nb::gil_scoped_release released;
        const BfsFinding finding =
            verify_bfs(arrays(offsets, edges, edge_bytes, num_vertices, num_edges), source,
                       reinterpret_cast<const int32_t*>(levels), reinterpret_cast<const int64_t*>(parents));
        return std::pair(static_cast<int64_t>(finding.rule), finding.position);
      },
      nb::arg("offsets"), nb::arg("edges"), nb::arg("edge_bytes"), nb::arg("num_vertices"), nb::arg("num_edges"),
      nb::arg("source"), nb::arg("levels"), nb::arg("parents"));
}

}  // namespace hinterland::native
