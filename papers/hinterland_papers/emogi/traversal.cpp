// EMOGI's traversals on the CPU.
#include <nanobind/stl/string.h>

#include "bindings.hpp"
#include "core/pool.hpp"
#include "hinterland_papers/emogi/case.hpp"
#include "hinterland_papers/emogi/tiles.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(emogi::ActiveTiles, division, active, marks);

namespace {

template <class App>
void level(const EmogiCase& run) {
  with_policies(run, [&](auto access, const auto& assignment, auto edge) {
    using Access = decltype(access);
    const memory::Pointer<decltype(edge)> edges(run.params.edges);
    parallel_for(
        emogi_blocks<Access>(assignment, 1, Warp::kWidth),
        [&](int64_t block) {
          App app{{run.params.state}};
          serve<Access>(assignment, edges, app, block, 0, 1);
          if (app.found) app.report_found();
        },
        64);
  });
}

int64_t blocks_of(const EmogiCase& run) {
  int64_t blocks = 0;
  with_policies(run, [&](auto access, const auto& assignment, auto) {
    blocks = emogi_blocks<decltype(access)>(assignment, emogi::kEmogiWarps, kWarpLanes);
  });
  return blocks;
}

// One level of an application, by the name that kernels have for it.
void emogi_level(const EmogiCase& run, const std::string& app) {
  if (app == "EmogiBfs") return level<emogi::EmogiBfs>(run);
  if (app == "EmogiSssp<int32_t>") return level<emogi::EmogiSssp<int32_t>>(run);
  if (app == "EmogiSssp<float>") return level<emogi::EmogiSssp<float>>(run);
  if (app == "EmogiSssp<double>") return level<emogi::EmogiSssp<double>>(run);
  if (app == "EmogiComponents") return level<emogi::EmogiComponents>(run);
  level<emogi::EmogiPagerank>(run);
}

void mark_active_tiles(const emogi::ActiveTiles& tiles) {
  parallel_for(tiles.division.num_vertices, [&](int64_t v) { tiles.mark(v); });
}

}  // namespace

const Binding emogi_traversal([](nb::module_& m) {
  m.attr("EMOGI_BLOCK") = emogi::kEmogiWarps * kWarpLanes;
  nb::class_<EmogiCase>(m, "EmogiCase", "The arrays that a level of EMOGI reads, as they are now, and its policies by name.")
      .def(
          "__init__",
          [](EmogiCase* self, uintptr_t params, int edge_bytes, std::string access, std::string assignment) {
            new (self) EmogiCase{*reinterpret_cast<const emogi::EmogiParams*>(params), edge_bytes, std::move(access),
                                 std::move(assignment)};
          },
          nb::arg("params"), nb::arg("edge_bytes"), nb::arg("access"), nb::arg("assignment"))
      .def("blocks", &blocks_of, "Blocks of the GPU's launch. Reads none of the arrays.");
  def_native(m, "emogi_level", emogi_level, nb::arg("run"), nb::arg("app"),
             "One level of EmogiBfs, EmogiSssp<weight>, EmogiComponents or EmogiPagerank on the CPU.");
  def_native(m, "mark_active_tiles", mark_active_tiles, nb::arg("params"),
             "Marks the tiles of the edge array with elements of active lists, on the CPU.");
});

}  // namespace hinterland::native
