// The GPU's shell around memory/bulk.hpp, one instance for each placement of rows. Never launched below compute capability 9.0.
#include "hinterland/memory/bulk.hpp"

namespace hinterland::memory {

#if __CUDA_ARCH__ >= 900

// A row's bytes of shared memory.
class SharedStaging {
 public:
  __device__ SharedStaging(char* bytes, BulkBarrier* barrier) : load_(bytes, barrier, true) {}

  __device__ void load(const char* from, int64_t size) { load_.begin(from, size); }

  __device__ void store(char* to, int64_t size) {
    load_.wait();
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(load_.bytes()),
                 "r"(static_cast<uint32_t>(size))
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
  }

  // Waits until all rows are where they were taken.
  __device__ void finish() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

 private:
  BulkLoad load_;
};

template <class Placement>
__device__ void gather_through_shared(const RowCopy<Placement>& copy) {
  extern __shared__ __align__(128) char shared[];  // a row for each thread, then a barrier for each
  BulkBarrier* const barriers = reinterpret_cast<BulkBarrier*>(shared + blockDim.x * copy.row_bytes);
  SharedStaging staging(shared + threadIdx.x * copy.row_bytes, barriers + threadIdx.x);
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  gather_bulk(copy, thread, static_cast<int64_t>(gridDim.x) * blockDim.x, staging);
  staging.finish();
}

#else

template <class Placement>
__device__ void gather_through_shared(const RowCopy<Placement>&) {}

#endif

template <class Placement>
__global__ void __launch_bounds__(kCopyThreads) bulk_rows_kernel(RowCopy<Placement> copy) {
  gather_through_shared(copy);
}

}  // namespace hinterland::memory
