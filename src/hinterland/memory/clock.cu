// The GPU's shells around memory/clock.hpp: slots for the rows of a batch in one cooperative launch, then the rows themselves.
#include "hinterland/memory/clock.hpp"

namespace hinterland::memory {

// kLru: there is a log. Without, what it takes of registers is CLOCK's.
template <bool kLru>
__global__ void __launch_bounds__(kAdmitThreads, 2) admit_kernel(AdmitParams p) {
  if constexpr (!kLru) p.clock.log.places = 0;
  GridTeam team(p.control);
  admit(team, p.clock, p.batch);
}

template <int kUnitBytes, bool kChunks>
__global__ void __launch_bounds__(kCopyThreads) fill_slots_kernel(FillParams p) {
  const RowCopy<OneRange> copy = p.filled();
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if constexpr (kChunks) {
    gather_chunks<kUnitBytes>(copy, thread, threads);
  } else {
    copy_rows<kUnitBytes>(copy, thread, threads);
  }
}

}  // namespace hinterland::memory
