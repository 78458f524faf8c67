// The GPU's shells around bam/elements.hpp, one instance for each type and, of reads, family of sources.
#include "hinterland_papers/bam/elements.hpp"

namespace hinterland::bam {

HINTERLAND_FN int64_t this_warp() { return (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / Warp::kWidth; }
HINTERLAND_FN int64_t all_warps() { return static_cast<int64_t>(gridDim.x) * blockDim.x / Warp::kWidth; }

template <class T, class Sources>
__global__ void __launch_bounds__(kElementThreads, 2) read_kernel(ReadParams p) {
  read_elements<T, Sources>(p, this_warp(), all_warps());
}

// Two blocks a multiprocessor, though that spills: who writes waits for the device, and more of them wait for more at once.
template <class T>
__global__ void __launch_bounds__(kElementThreads, 2) write_kernel(WriteParams p) {
  write_elements<T, DeviceSources>(p, this_warp(), all_warps());
}

}  // namespace hinterland::bam
