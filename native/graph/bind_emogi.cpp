#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "graph/emogi.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_graph_emogi(nb::module_& m) {
  m.attr("EMOGI_BLOCK") = graph::kEmogiWarps * kWarpLanes;
  m.attr("EMOGI_IN_FLIGHT") = graph::kStepsInFlight;
  nb::class_<EmogiCase>(m, "EmogiCase", "The arrays that a traversal of EMOGI reads, and its policies by name.")
      .def(
          "__init__",
          [](EmogiCase* self, std::string access, std::string assignment, uintptr_t offsets, uintptr_t edges, int edge_bytes,
             int64_t num_vertices, int64_t num_edges, int64_t size, uintptr_t first_vertices, uintptr_t tiles,
             int64_t num_tiles) {
            const graph::Division division{reinterpret_cast<const int64_t*>(offsets),
                                    num_vertices,
                                    num_edges,
                                    size,
                                    reinterpret_cast<const int64_t*>(first_vertices),
                                    reinterpret_cast<const int64_t*>(tiles),
                                    num_tiles};
            new (self) EmogiCase{division, reinterpret_cast<const void*>(edges), edge_bytes, std::move(access),
                                 std::move(assignment)};
          },
          nb::arg("access"), nb::arg("assignment"), nb::arg("offsets"), nb::arg("edges"), nb::arg("edge_bytes"),
          nb::arg("num_vertices"), nb::arg("num_edges"), nb::arg("size"), nb::arg("first_vertices"), nb::arg("tiles"),
          nb::arg("num_tiles"))
      .def("blocks", &blocks_of, "Blocks of the GPU's launch. Reads none of the arrays.");
  m.def(
      "emogi_level",
      [](const EmogiCase& run, const std::string& algorithm, uintptr_t values, uintptr_t active, uintptr_t beside,
         uintptr_t weights, int64_t level, uintptr_t report) {
        GilReleased released;
        emogi_level(run, algorithm,
                    {run.division.num_vertices, reinterpret_cast<void*>(values), reinterpret_cast<uint8_t*>(active),
                     reinterpret_cast<void*>(beside), reinterpret_cast<const int32_t*>(weights), level,
                     reinterpret_cast<int64_t*>(report)});
      },
      nb::arg("run"), nb::arg("algorithm"), nb::arg("values"), nb::arg("active"), nb::arg("beside"), nb::arg("weights"),
      nb::arg("level"), nb::arg("report"), "One level of bfs, sssp, cc or pagerank on the CPU.");
}

}  // namespace hinterland::native
