// The GPU's shell around memory/row_table.hpp, one instance for each use, and of a gather for each type of rows and of output.
#include "hinterland/memory/row_table.hpp"

namespace hinterland::memory {

template <RowUse kUse, class T, class Out>
__global__ void __launch_bounds__(kRowTableThreads) row_table_kernel(RowTableParams p) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  move_rows<kUse, T, Out>(p, thread, static_cast<int64_t>(gridDim.x) * blockDim.x);
}

}  // namespace hinterland::memory
