// The GPU's shells around memory/clock.hpp: slots for the rows of a batch in one cooperative launch, then the rows themselves.
#include "hinterland/memory/clock.hpp"

namespace hinterland::memory {

// `control` is zero.
__global__ void __launch_bounds__(512, 2)
    admit_kernel(int64_t rows, int64_t capacity, int32_t* slots, int64_t* row_of, uint32_t* used, uint32_t* marked,
                 ClockHand* hand, const void* indices, int64_t index_bytes, int64_t count, int64_t* filled, int64_t* claimed,
                 int64_t* sums, TeamControl* control) {
  GridTeam team(control);
  admit(team, Clock{rows, capacity, slots, row_of, used, marked, hand},
        ClockBatch{indices, index_bytes, count, filled, claimed, sums});
}

// A gather to slots: position s gets row row_of[s], and only the filled positions are visited. The GPU alone knows how many.
template <int kUnitBytes, bool kChunks>
__global__ void __launch_bounds__(1024)
    fill_slots_kernel(char* table, int64_t rows, char* local, const int64_t* row_of, const int64_t* filled,
                      const ClockHand* hand, int64_t row_bytes, int64_t lanes, int64_t steps, int64_t shifted,
                      IndexFault* fault, volatile int64_t* flag) {
  const RowCopy<PointerTable> copy{{table, rows}, local, row_of, 8, filled, hand->admitted, row_bytes, 0};
  const RowCut cut{row_bytes / kUnitBytes, lanes, steps, shifted};
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  if constexpr (kChunks) {
    gather_chunks<kUnitBytes>(copy, cut, thread, threads, *fault, flag);
  } else {
    copy_rows<kUnitBytes>(copy, cut, thread, threads, *fault, flag);
  }
}

}  // namespace hinterland::memory
