// The tiles that a level has to serve: graph/emogi_tiles.hpp.
#include "hinterland/graph/emogi_tiles.hpp"

namespace hinterland::graph {

__global__ void mark_active_tiles(const __grid_constant__ ActiveTiles p) {
  const int64_t v = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (v < p.division.num_vertices) p.mark(v);
}

}  // namespace hinterland::graph
