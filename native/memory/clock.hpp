// The CPU's shell around hinterland/memory/clock.hpp.
#pragma once

#include <array>

#include "hinterland/memory/clock.hpp"

namespace hinterland::native {

// The fields of a Clock and of a ClockBatch in their order, as src/hinterland/memory/clock.py has them.
using ClockWords = std::array<int64_t, 13>;

inline memory::Clock clock_of(const ClockWords& words) {
  return {words[0],
          words[1],
          reinterpret_cast<int32_t*>(words[2]),
          reinterpret_cast<int64_t*>(words[3]),
          reinterpret_cast<uint32_t*>(words[4]),
          reinterpret_cast<uint32_t*>(words[5]),
          reinterpret_cast<memory::ClockHand*>(words[6])};
}

inline memory::ClockBatch clock_batch(const ClockWords& words) {
  return {reinterpret_cast<const void*>(words[7]),
          words[8],
          words[9],
          reinterpret_cast<int64_t*>(words[10]),
          reinterpret_cast<int64_t*>(words[11]),
          reinterpret_cast<int64_t*>(words[12])};
}

// Gives slots to the rows of a batch, and copies those rows from `table` to the slots at `local`; of 0 bytes, none.
void admit(const memory::Clock& clock, const memory::ClockBatch& batch, char* table, char* local, int64_t row_bytes);

}  // namespace hinterland::native
