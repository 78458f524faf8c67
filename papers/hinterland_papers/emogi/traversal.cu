// One level of a traversal of EMOGI: one launch, as published.
#include "hinterland_papers/emogi/traversal.hpp"

namespace hinterland::emogi {

template <class App, class Access, class Assignment, class Edge>
__global__ void __launch_bounds__(kEmogiWarps* kWarpLanes) emogi_level(const __grid_constant__ EmogiParams p) {
  const Assignment assignment{p.division};
  App app{{p.state}};
  serve<Access>(assignment, memory::Pointer<Edge>(p.edges), app, blockIdx.x, threadIdx.x / kWarpLanes, kEmogiWarps);
  if (__syncthreads_or(app.found) && threadIdx.x == 0) app.report_found();
}

}  // namespace hinterland::emogi
