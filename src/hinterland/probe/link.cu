// What a GPU reads from memory that is not its own: shells around the timed reads of probe/reads.hpp.
#include "hinterland/memory/source.hpp"
#include "hinterland/probe/reads.hpp"

namespace hinterland::probe {

namespace {

// A value that is stored only if the reads fold to it: the compiler must do them all, and almost never is one stored.
constexpr uint32_t kUnlikely = 0x9E3779B9u;

__device__ int64_t thread_index() { return blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; }
__device__ int64_t thread_count() { return gridDim.x * static_cast<int64_t>(blockDim.x); }

}  // namespace

template <int kBytes>
__global__ void read_sequence(SequenceParams p) {
  const memory::Pointer<Word<kBytes>> source(p.base);
  const uint32_t all = fold_sequence(source, thread_index(), p.words, thread_count());
  if (all == kUnlikely) *p.sink = all;
}

__global__ void read_random(RandomParams p) {
  const memory::Pointer<Word<16>> source(p.base);
  const Philox philox{p.seed};
  uint32_t all = 0;
  for (int64_t i = thread_index(); i < p.draws * p.words; i += thread_count()) {
    all ^= fold_random(source, philox, p.rows, p.words, i / p.words, i % p.words);
  }
  if (all == kUnlikely) *p.sink = all;
}

// One thread.
__global__ void read_chain(ChainParams p) { *p.at = follow(memory::Pointer<int64_t>(p.base), *p.at, p.steps); }

}  // namespace hinterland::probe
