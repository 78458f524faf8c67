// The GPU's shells around the flush of storage/written.hpp.
#include "hinterland/storage/written.hpp"

namespace hinterland::storage {

__global__ void __launch_bounds__(kFlushThreads) write_back_kernel(FlushParams p) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  write_back(*p.store, thread / Warp::kWidth, static_cast<int64_t>(gridDim.x) * blockDim.x / Warp::kWidth);
}

__global__ void flush_kernel(FlushParams p) { flush(*p.store); }

}  // namespace hinterland::storage
