// The GPU's shells around memory/gather.hpp, one instance for each width of unit.
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

template <int kUnitBytes>
__global__ void __launch_bounds__(kCopyThreads) copy_rows_kernel(RowCopy<PointerTable> copy) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  copy_rows<kUnitBytes>(copy, thread, static_cast<int64_t>(gridDim.x) * blockDim.x);
}

template <int kUnitBytes>
__global__ void __launch_bounds__(kCopyThreads) gather_chunks_kernel(RowCopy<PointerTable> copy) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  gather_chunks<kUnitBytes>(copy, thread, static_cast<int64_t>(gridDim.x) * blockDim.x);
}

}  // namespace hinterland::memory
