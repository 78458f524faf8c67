// The GPU's shell around memory/gather.hpp for a table over several tiers, one instance for each width of unit and pass.
#include "hinterland/memory/tiers.hpp"

namespace hinterland::memory {

enum class Pass { kRows, kChunks, kReplicas };

template <int kUnitBytes, Pass kPass>
__global__ void __launch_bounds__(1024)
    tiered_rows_kernel(char* host, int64_t rows, const void* slots, int64_t slot_bytes, char* local, int64_t local_rows,
                       int64_t resident, char* const* shards, int64_t gpus, int64_t reciprocal, char* const* replicas,
                       int64_t others, char* packed, const void* indices, int64_t index_bytes, const int64_t* visit,
                       int64_t count, int64_t row_bytes, int64_t into_table, int64_t lanes, int64_t steps, int64_t shifted,
                       IndexFault* fault, volatile int64_t* flag) {
  const RowCopy<TieredTable> copy{
      {host, rows, slots, slot_bytes, local, local_rows, resident, shards, gpus, reciprocal, replicas, others},
      packed, indices, index_bytes, visit, count, row_bytes, into_table};
  const RowCut cut{row_bytes / kUnitBytes, lanes, steps, shifted};
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if constexpr (kPass == Pass::kRows) copy_rows<kUnitBytes>(copy, cut, thread, threads, *fault, flag);
  if constexpr (kPass == Pass::kChunks) gather_chunks<kUnitBytes>(copy, cut, thread, threads, *fault, flag);
  if constexpr (kPass == Pass::kReplicas) replicate_rows<kUnitBytes>(copy, cut, thread, threads);
}

}  // namespace hinterland::memory
