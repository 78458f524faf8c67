// What the CPU's threads get from its memory.
#pragma once

#include <cstdint>

namespace hinterland::native {

// Reads `bytes` bytes (a multiple of 4) with all threads and returns their fold.
uint32_t read_sequence(const void* base, int64_t bytes);

// Writes a chain through `count` places (a power of two), `stride` elements apart, that visits each place once in an
// order no prefetcher guesses; then read_chain() follows it from `at` for `steps` reads and returns where it stopped.
void write_chain(int64_t* base, int64_t count, int64_t stride);
int64_t read_chain(const int64_t* base, int64_t at, int64_t steps);

}  // namespace hinterland::native
