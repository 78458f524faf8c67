// The GPU's shells around memory/embedding.hpp. T: the elements of the table; kWide: as many as 16 bytes hold, or one.
#include "hinterland/memory/embedding.hpp"

namespace hinterland::memory {

__device__ int64_t this_thread() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t all_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

template <class T, int kWide, bool kMax>
__global__ void __launch_bounds__(kBagThreads) pool_kernel(PoolParams p) {
  pool_bags<T, kWide, kMax>(p, this_thread(), all_threads());
}

template <class T, int kWide>
__global__ void __launch_bounds__(kBagThreads) weigh_kernel(WeighParams p) {
  weigh_entries<T, kWide>(p, this_thread(), all_threads());
}

__global__ void __launch_bounds__(kBagThreads) note_kernel(NoteParams p) {
  for (int64_t i = this_thread(); i < max_of(p.bags.count, p.bags.bags); i += all_threads()) note_entry(p, i);
}

template <class T, int kWide, class Rule>
__global__ void __launch_bounds__(kBagThreads) update_kernel(UpdateParams p) {
  update_rows<T, kWide, Rule>(p, this_thread(), all_threads());
}

}  // namespace hinterland::memory
