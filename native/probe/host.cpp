#include "probe/host.hpp"

#include <omp.h>

#include <algorithm>

#include "hinterland/memory/source.hpp"
#include "hinterland/probe/reads.hpp"

namespace hinterland::native {

uint32_t read_sequence(const void* base, int64_t bytes) {
  const memory::Pointer<probe::Word<4>> source(base);
  const int64_t words = bytes / 4;
  uint32_t all = 0;
#pragma omp parallel reduction(^ : all)
  {
    const int64_t part = ceil_div<int64_t>(words, omp_get_num_threads());
    const int64_t first = std::min(words, part * omp_get_thread_num());
    all ^= probe::fold_sequence(source, first, std::min(words, first + part), 1);
  }
  return all;
}

void write_chain(int64_t* base, int64_t count, int64_t stride) {
  // A linear congruential generator modulo a power of two has full period with an odd increment and a multiplier of
  // 1 modulo 4 (Hull and Dobell 1962); these are Numerical Recipes' constants.
  const uint64_t mask = static_cast<uint64_t>(count - 1);
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t next = (static_cast<uint64_t>(i) * 1664525u + 1013904223u) & mask;
    base[i * stride] = static_cast<int64_t>(next) * stride;
  }
}

int64_t read_chain(const int64_t* base, int64_t at, int64_t steps) {
  return probe::follow(memory::Pointer<int64_t>(base), at, steps);
}

}  // namespace hinterland::native
