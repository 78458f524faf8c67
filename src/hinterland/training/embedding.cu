// The GPU's shells around training/embedding.hpp. T: the elements of the table; kWide: as many as 16 bytes hold, or one. The
// table comes first, as the fields of TieredTable, and the bags as those of Bags.
#include "hinterland/training/embedding.hpp"

namespace hinterland::training {

inline constexpr int kBlock = 256;

__device__ int64_t this_thread() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ int64_t all_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

template <class T, int kWide, bool kMax>
__global__ void __launch_bounds__(kBlock)
    pool_kernel(char* host, int64_t table_rows, const void* slots, int64_t slot_bytes, char* local, int64_t local_rows,
                int64_t resident, char* const* shards, int64_t gpus, int64_t reciprocal, char* const* replicas, int64_t others,
                int64_t dim, const void* indices, int64_t index_bytes, int64_t count, const void* offsets,
                int64_t offset_bytes, int64_t closed, int64_t each, int64_t bags, int64_t rows, int64_t padding,
                const float* weights, T* pooled, int64_t* best, int64_t* counts, int64_t lanes, int64_t steps,
                memory::IndexFault* offset_fault, volatile int64_t* offset_flag, memory::IndexFault* row_fault, volatile int64_t* row_flag) {
  const memory::TieredTable table{host,     table_rows, slots, slot_bytes, local,    local_rows,
                          resident, shards,     gpus,  reciprocal, replicas, others};
  const Bags given{indices, index_bytes, count, offsets, offset_bytes, closed, each, bags, rows, padding};
  pool_bags<kWide, kMax>(TableRows<T>{table, dim}, given, weights, Pooled<T>{pooled, best, counts}, lanes, steps, this_thread(),
                         all_threads(), *row_fault, *offset_fault, row_flag, offset_flag);
}

template <class T, int kWide>
__global__ void __launch_bounds__(kBlock)
    weigh_kernel(char* host, int64_t table_rows, const void* slots, int64_t slot_bytes, char* local, int64_t local_rows,
                 int64_t resident, char* const* shards, int64_t gpus, int64_t reciprocal, char* const* replicas, int64_t others,
                 int64_t dim, const void* indices, int64_t index_bytes, int64_t count, const void* offsets,
                 int64_t offset_bytes, int64_t closed, int64_t each, int64_t bags, int64_t rows, int64_t padding,
                 const T* gradient, float* found, int64_t lanes) {
  const memory::TieredTable table{host,     table_rows, slots, slot_bytes, local,    local_rows,
                          resident, shards,     gpus,  reciprocal, replicas, others};
  const Bags given{indices, index_bytes, count, offsets, offset_bytes, closed, each, bags, rows, padding};
  weigh_entries<kWide>(TableRows<T>{table, dim}, given, gradient, found, lanes, this_thread(), all_threads());
}

__global__ void __launch_bounds__(kBlock)
    note_kernel(const void* indices, int64_t index_bytes, int64_t count, const void* offsets, int64_t offset_bytes,
                int64_t closed, int64_t each, int64_t bags, int64_t rows, int64_t padding, const float* weights,
                const int64_t* counts, void* keys, int64_t key_bytes, int64_t* bag, float* factor, int64_t* bad) {
  const Bags given{indices, index_bytes, count, offsets, offset_bytes, closed, each, bags, rows, padding};
  const EntryNotes notes{keys, key_bytes, bag, factor, bad};
  for (int64_t i = this_thread(); i < max_of(count, bags); i += all_threads()) note_entry(given, weights, counts, notes, i);
}

template <class T, int kWide, class Rule>
__global__ void __launch_bounds__(kBlock)
    update_kernel(char* host, int64_t table_rows, const void* slots, int64_t slot_bytes, char* local, int64_t local_rows,
                  int64_t resident, char* const* shards, int64_t gpus, int64_t reciprocal, char* const* replicas,
                  int64_t others, int64_t dim, float* state, const void* keys, int64_t key_bytes, const int64_t* order,
                  int64_t count, const int64_t* bag, const float* factor, const int64_t* best, const T* gradient,
                  const int64_t* bad, int64_t rate, int64_t eps, int64_t lanes, int64_t steps) {
  const memory::TieredTable table{host,     table_rows, slots, slot_bytes, local,    local_rows,
                          resident, shards,     gpus,  reciprocal, replicas, others};
  const SortedGradients<T> given{keys, key_bytes, order, count, bag, factor, best, gradient, bad};
  update_rows<kWide>(TableRows<T>{table, dim}, StateRows{state, dim}, Rule(rate, eps), given, lanes, steps, this_thread(),
                     all_threads());
}

}  // namespace hinterland::training
