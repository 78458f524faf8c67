// EMOGI's traversals over edges that are read through a source, on the CPU.
#include <nanobind/stl/string.h>

#include <vector>

#include "bindings.hpp"
#include "core/pool.hpp"
#include "hinterland_papers/bam/array.hpp"
#include "hinterland_papers/bam/stored_params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

// body(assignment), of the policy that Python calls so; "copied" is of tiles.
template <class Body>
void with_assignment(const emogi::Division& division, const std::string& policy, Body&& body) {
  if (policy == "vertices") return body(emogi::ConsecutiveVertices{division});
  if (policy == "far") return body(bam::FarVertices{division});
  if (policy == "transposed") return body(emogi::TransposedVertices{division});
  body(emogi::EdgeTiles{division});
}

template <class App, class Edge, bool kCopies, class Sources, class Assignment>
void level(const bam::EmogiStoredParams& params, const Assignment& assignment) {
  const size_t copied = kCopies ? static_cast<size_t>(assignment.size) : 0;
  parallel_for(
      emogi_blocks<emogi::AlignedAccess>(assignment, 1, Warp::kWidth),
      [&](int64_t block) {
        static thread_local std::vector<Edge> copy;
        copy.resize(copied);
        App app{{params.level.state}};
        bam::serve_stored<Assignment, Edge, kCopies, Sources>(params, app, copy.data(), block, 0, 1);
        if (app.found) app.report_found();
      },
      64);
}

template <class App, class Edge, class Sources>
void level_of(const bam::EmogiStoredParams& params, const std::string& policy) {
  const emogi::Division& division = params.level.division;
  if (policy == "copied") return level<App, Edge, true, Sources>(params, emogi::EdgeTiles{division});
  with_assignment(division, policy, [&](const auto& assignment) { level<App, Edge, false, Sources>(params, assignment); });
}

template <class App, class Edge>
void level_of(const bam::EmogiStoredParams& params, const std::string& policy) {
  params.edges.store != nullptr ? level_of<App, Edge, bam::DeviceSources>(params, policy)
                                : level_of<App, Edge, memory::Unmetered>(params, policy);
}

// One level of "bfs" or "cc".
void emogi_stored_level(const bam::EmogiStoredParams& params, const std::string& algorithm, const std::string& policy,
                        int64_t edge_bytes) {
  if (algorithm == "bfs")
    return edge_bytes == 4 ? level_of<emogi::EmogiBfs, int32_t>(params, policy)
                           : level_of<emogi::EmogiBfs, int64_t>(params, policy);
  edge_bytes == 4 ? level_of<emogi::EmogiComponents, int32_t>(params, policy)
                  : level_of<emogi::EmogiComponents, int64_t>(params, policy);
}

// Blocks of the GPU's launch.
int64_t emogi_stored_blocks(const bam::EmogiStoredParams& params, const std::string& policy) {
  int64_t blocks = 0;
  with_assignment(params.level.division, policy, [&](const auto& assignment) {
    blocks = emogi_blocks<emogi::AlignedAccess>(assignment, emogi::kEmogiWarps, kWarpLanes);
  });
  return blocks;
}

}  // namespace

const Binding bam_stored([](nb::module_& m) {
  m.attr("EMOGI_TILE_BYTES") = bam::kTileBytes;
  def_native(m, "emogi_stored_level", emogi_stored_level, nb::arg("params"), nb::arg("algorithm"), nb::arg("policy"),
             nb::arg("edge_bytes"), "One level of bfs or cc on the CPU, over edges that are read through a source.");
  def_native(m, "emogi_stored_blocks", emogi_stored_blocks, nb::arg("params"), nb::arg("policy"));
});

}  // namespace hinterland::native
