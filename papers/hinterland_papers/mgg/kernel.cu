// The GPU's shell around mgg/kernel.hpp.
#include "hinterland_papers/mgg/kernel.hpp"

namespace hinterland::mgg {

template <int kChunks, int kAhead, Loads kLoads>
__global__ void __launch_bounds__(kMggThreads, 2) mgg_kernel(const __grid_constant__ MggParams p) {
  extern __shared__ __align__(16) char shared[];
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  MggLane<kChunks, kAhead, kLoads> lane(p, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                                        reinterpret_cast<Quad*>(shared));
  lane(blockIdx.x, thread / p.lanes);
}

}  // namespace hinterland::mgg
