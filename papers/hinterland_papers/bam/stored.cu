// One level of a traversal of EMOGI whose edges are read through a source: bam/stored.hpp.
#include "hinterland_papers/bam/array.hpp"
#include "hinterland_papers/bam/stored.hpp"

namespace hinterland::bam {

template <class App, class Assignment, class Edge, bool kCopies, class Sources>
__global__ void __launch_bounds__(kEmogiWarps* kWarpLanes) emogi_stored_level(const __grid_constant__ EmogiStoredParams p) {
  App app{{p.level.state}};
  const int64_t warp = threadIdx.x / kWarpLanes;
  Edge* copy = nullptr;
  if constexpr (kCopies) {
    __shared__ Edge tiles[kEmogiWarps][kTileBytes / sizeof(Edge)];
    copy = tiles[warp];
  }
  serve_stored<Assignment, Edge, kCopies, Sources>(p, app, copy, blockIdx.x, warp, kEmogiWarps);
  if (__syncthreads_or(app.found) && threadIdx.x == 0) app.report_found();
}

}  // namespace hinterland::bam
