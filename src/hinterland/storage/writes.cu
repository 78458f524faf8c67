// The GPU's shells around storage/writes.hpp, and those of a flush.
#include "hinterland/storage/writes.hpp"

namespace hinterland::storage {

HINTERLAND_FN int64_t this_warp() { return (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / Warp::kWidth; }
HINTERLAND_FN int64_t all_warps() { return static_cast<int64_t>(gridDim.x) * blockDim.x / Warp::kWidth; }

// Two blocks a multiprocessor, though that spills: who writes waits for the device, and more of them wait for more at once.
template <class T>
__global__ void __launch_bounds__(kReadThreads, 2) write_kernel(WriteParams p) {
  write_elements<T, WrittenOnStorage<DeviceStore>>(p, this_warp(), all_warps());
}

__global__ void __launch_bounds__(kReadThreads) write_back_kernel(FlushParams p) {
  write_back(*p.store, this_warp(), all_warps());
}

__global__ void flush_kernel(FlushParams p) { flush(*p.store); }

}  // namespace hinterland::storage
