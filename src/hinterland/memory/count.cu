// The GPU's shell around memory/count.hpp, one instance for each placement of rows.
#include "hinterland/memory/count.hpp"

namespace hinterland::memory {

template <class Placement>
__global__ void __launch_bounds__(kCopyThreads) count_kernel(CountParams<Placement> p) {
  count_rows(p, static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, static_cast<int64_t>(gridDim.x) * blockDim.x);
}

}  // namespace hinterland::memory
