// What a GPU reads from memory that is not its own: shells around the timed reads of probe/reads.hpp.
#include "hinterland/probe/reads.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::probe {

namespace {

// A value that is stored only if the reads fold to it: the compiler must do them all, and almost never is one stored.
constexpr uint32_t kUnlikely = 0x9E3779B9u;

__device__ int64_t thread_index() { return blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; }
__device__ int64_t thread_count() { return gridDim.x * static_cast<int64_t>(blockDim.x); }

}  // namespace

template <int kBytes>
__global__ void read_sequence(const Word<kBytes>* base, int64_t words, uint32_t* sink) {
  const memory::PointerSource<Word<kBytes>> source{base};
  const uint32_t all = fold_sequence(source, thread_index(), words, thread_count());
  if (all == kUnlikely) *sink = all;
}

// `draws` random rows of `words` 16-byte words, `words` threads a row.
__global__ void read_random(const Word<16>* base, int64_t rows, int64_t words, int64_t draws, int64_t seed,
                            uint32_t* sink) {
  const memory::PointerSource<Word<16>> source{base};
  const Philox philox{static_cast<uint64_t>(seed)};
  uint32_t all = 0;
  for (int64_t i = thread_index(); i < draws * words; i += thread_count()) {
    all ^= fold_random(source, philox, rows, words, i / words, i % words);
  }
  if (all == kUnlikely) *sink = all;
}

// One thread. *at is where the chain was left, and where it goes on.
__global__ void read_chain(const int64_t* base, int64_t steps, int64_t* at) {
  *at = follow(memory::PointerSource<int64_t>{base}, *at, steps);
}

}  // namespace hinterland::probe
