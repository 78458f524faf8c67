// The GPU's shell around storage/reads.hpp, one instance for each type and family of sources.
#include "hinterland/storage/reads.hpp"

namespace hinterland::storage {

template <class T, class Sources>
__global__ void __launch_bounds__(kReadThreads, 2) read_kernel(ReadParams p) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  read_elements<T, Sources>(p, (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / Warp::kWidth,
                            threads / Warp::kWidth);
}

}  // namespace hinterland::storage
