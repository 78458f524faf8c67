// Bytes on their way from memory that a GPU addresses into the shared memory of a multiprocessor, brought by its bulk copy
// engine: none of them waits in a register, and the host's come as fast as copies do (docs/notes/gather-on-h200.md). Compute
// capability 9.0.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {

using BulkBarrier = uint64_t;  // in shared memory, one for each load at a time

#if defined(__CUDA_ARCH__)
#if __CUDA_ARCH__ >= 900

class BulkLoad {
 public:
  // One thread makes the barrier; `maker` says whether it is this one. Others have waited for it before they use it.
  __device__ BulkLoad(void* bytes, BulkBarrier* barrier, bool maker)
      : bytes_(static_cast<uint32_t>(__cvta_generic_to_shared(bytes))),
        barrier_(static_cast<uint32_t>(__cvta_generic_to_shared(barrier))) {
    if (!maker) return;
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier_) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the engine sees the barrier
  }

  // Begins to bring bytes, a multiple of 16 from such an address. By one thread, once nobody reads what came before.
  __device__ void begin(const void* from, int64_t size) const {
    const uint32_t count = static_cast<uint32_t>(size);
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier_), "r"(count) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(bytes_),
                 "l"(from), "r"(count), "r"(barrier_)
                 : "memory");
  }

  // Waits until they are there; every thread that reads them, once for each load.
  __device__ void wait() {
    asm volatile(
        "{\n.reg .pred come;\nagain: mbarrier.try_wait.parity.shared::cta.b64 come, [%0], %1;\n@!come bra again;\n}" ::"r"(
            barrier_),
        "r"(parity_)
        : "memory");
    parity_ ^= 1;
  }

  __device__ uint32_t bytes() const { return bytes_; }

 private:
  uint32_t bytes_, barrier_;
  uint32_t parity_ = 0;
};

#endif
#endif

}  // namespace hinterland
