// The GPU's shell around memory/gather.hpp for a table over several tiers, one instance for each width of unit and pass.
#include "hinterland/memory/tiers.hpp"

namespace hinterland::memory {

enum class Pass { kRows, kChunks, kReplicas };

template <int kUnitBytes, Pass kPass>
__global__ void __launch_bounds__(kCopyThreads) tiered_rows_kernel(RowCopy<TieredTable> copy) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if constexpr (kPass == Pass::kRows) copy_rows<kUnitBytes>(copy, thread, threads);
  if constexpr (kPass == Pass::kChunks) gather_chunks<kUnitBytes>(copy, thread, threads);
  if constexpr (kPass == Pass::kReplicas) replicate_rows<kUnitBytes>(copy, thread, threads);
}

}  // namespace hinterland::memory
