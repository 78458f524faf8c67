// One level of a traversal of EMOGI: one launch, as published.
#include "hinterland/graph/emogi.hpp"

namespace hinterland::graph {

template <class App, class Access, class Assignment, class Edge>
__global__ void __launch_bounds__(kEmogiWarps* kWarpLanes)
    emogi_level(const int64_t* offsets, const Edge* edges, int64_t num_vertices, int64_t num_edges, int64_t size,
                const int64_t* first_vertices, const int64_t* tiles, int64_t num_tiles, void* values, uint8_t* active,
                void* beside, const int32_t* weights, int64_t level, int64_t* report) {
  const Assignment assignment{{offsets, num_vertices, num_edges, size, first_vertices, tiles, num_tiles}};
  App app{{{num_vertices, values, active, beside, weights, level, report}}};
  serve<Access>(assignment, edges, app, blockIdx.x, threadIdx.x / kWarpLanes, kEmogiWarps);
  if (__syncthreads_or(app.found) && threadIdx.x == 0) app.report_found();
}

}  // namespace hinterland::graph
