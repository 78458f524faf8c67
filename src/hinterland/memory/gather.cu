// The GPU's shell around memory/gather.hpp, one instance for each placement of rows, width of unit and pass.
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

enum class GatherPass { kRows, kChunks, kReplicas };

template <class Placement, int kUnitBytes, GatherPass kPass>
__global__ void __launch_bounds__(kCopyThreads) rows_kernel(RowCopy<Placement> copy) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if constexpr (kPass == GatherPass::kRows) copy_rows<kUnitBytes>(copy, thread, threads);
  if constexpr (kPass == GatherPass::kChunks) gather_chunks<kUnitBytes>(copy, thread, threads);
  if constexpr (kPass == GatherPass::kReplicas) replicate_rows<kUnitBytes>(copy, thread, threads);
}

}  // namespace hinterland::memory
