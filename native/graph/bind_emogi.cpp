#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "graph/emogi.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::Division, offsets, num_vertices, num_edges, size, first_vertices, tiles, num_tiles);
HINTERLAND_STRUCT(graph::EmogiState, num_vertices, values, active, beside, weights, level, report);
HINTERLAND_STRUCT(graph::EmogiParams, division, edges, state);

void bind_graph_emogi(nb::module_& m) {
  m.attr("EMOGI_BLOCK") = graph::kEmogiWarps * kWarpLanes;
  m.attr("EMOGI_IN_FLIGHT") = graph::kEmogiInFlight;
  nb::class_<EmogiCase>(m, "EmogiCase", "The arrays that a level of EMOGI reads, as they are now, and its policies by name.")
      .def(
          "__init__",
          [](EmogiCase* self, uintptr_t params, int edge_bytes, std::string access, std::string assignment) {
            new (self) EmogiCase{*reinterpret_cast<const graph::EmogiParams*>(params), edge_bytes, std::move(access),
                                 std::move(assignment)};
          },
          nb::arg("params"), nb::arg("edge_bytes"), nb::arg("access"), nb::arg("assignment"))
      .def("blocks", &blocks_of, "Blocks of the GPU's launch. Reads none of the arrays.");
  m.def(
      "emogi_level",
      [](const EmogiCase& run, const std::string& algorithm) {
        GilReleased released;
        emogi_level(run, algorithm);
      },
      nb::arg("run"), nb::arg("algorithm"), "One level of bfs, sssp, cc or pagerank on the CPU.");
}

}  // namespace hinterland::native
