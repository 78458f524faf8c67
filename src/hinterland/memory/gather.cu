// The GPU's shells around memory/gather.hpp, one instance for each width of unit.
#include "hinterland/memory/gather.hpp"

namespace hinterland::memory {

template <int kUnitBytes>
__global__ void __launch_bounds__(1024)
    copy_rows_kernel(char* table, int64_t table_rows, char* packed, const void* indices, int64_t index_bytes,
                     const int64_t* visit, int64_t count, int64_t row_bytes, int64_t into_table, int64_t lanes, int64_t steps,
                     int64_t shifted, IndexFault* fault, volatile int64_t* flag) {
  const RowCopy<PointerTable> copy{{table, table_rows}, packed, indices, index_bytes, visit, count, row_bytes, into_table};
  const RowCut cut{row_bytes / kUnitBytes, lanes, steps, shifted};
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  copy_rows<kUnitBytes>(copy, cut, thread, static_cast<int64_t>(gridDim.x) * blockDim.x, *fault, flag);
}

template <int kUnitBytes>
__global__ void __launch_bounds__(1024)
    gather_chunks_kernel(char* table, int64_t table_rows, char* packed, const void* indices, int64_t index_bytes,
                         const int64_t* visit, int64_t count, int64_t row_bytes, int64_t into_table, int64_t lanes,
                         int64_t steps, int64_t shifted, IndexFault* fault, volatile int64_t* flag) {
  const RowCopy<PointerTable> copy{{table, table_rows}, packed, indices, index_bytes, visit, count, row_bytes, into_table};
  const RowCut cut{0, lanes, steps, shifted};
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  gather_chunks<kUnitBytes>(copy, cut, thread, static_cast<int64_t>(gridDim.x) * blockDim.x, *fault, flag);
}

}  // namespace hinterland::memory
