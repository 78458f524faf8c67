// The GPU's shell around fullgraph/take.hpp.
#include "hinterland/fullgraph/take.hpp"

namespace hinterland::fullgraph {

template <class Place, class Source, int kUnitBytes>
__global__ void __launch_bounds__(kTakeThreads) take_kernel(const __grid_constant__ TakeParams p) {
  take_rows<Place, Source, kUnitBytes>(p, static_cast<int64_t>(blockIdx.x) * kTakeThreads + threadIdx.x,
                                       static_cast<int64_t>(gridDim.x) * kTakeThreads);
}

}  // namespace hinterland::fullgraph
