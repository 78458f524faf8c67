// The tiles that a level has to serve: emogi/tiles.hpp.
#include "hinterland_papers/emogi/tiles.hpp"

namespace hinterland::emogi {

__global__ void mark_active_tiles(const __grid_constant__ ActiveTiles p) {
  const int64_t v = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (v < p.division.num_vertices) p.mark(v);
}

}  // namespace hinterland::emogi
