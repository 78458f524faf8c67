// The reads that a probe times: in sequence, at random, and one after another. Each is one line of arithmetic around
// source.read_alone(), so that what is timed is the memory and not the code. The fold keeps a compiler from dropping them.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"

namespace hinterland::probe {

// One load of a thread: 4, 8 or 16 bytes, fetched by one instruction.
template <int kBytes>
struct alignas(kBytes) Word {
  uint32_t part[kBytes / 4];

  HINTERLAND_FN uint32_t fold() const {
    uint32_t all = 0;
    for (int i = 0; i < kBytes / 4; ++i) all ^= part[i];
    return all;
  }
};

// Every `step`-th word from `first` on: neighbouring threads read neighbouring words, so that a warp reads whole lines.
template <class Source>
HINTERLAND_FN uint32_t fold_sequence(const Source& source, int64_t first, int64_t end, int64_t step) {
  uint32_t all = 0;
  for (int64_t i = first; i < end; i += step) all ^= source.read_alone(i).fold();
  return all;
}

// Word `lane` of the `draw`-th random row of a table of `rows` rows of `words` words; its lanes all draw the same row.
template <class Source>
HINTERLAND_FN uint32_t fold_random(const Source& source, const Philox& philox, int64_t rows, int64_t words, int64_t draw,
                                   int64_t lane) {
  const auto row = static_cast<int64_t>(philox.below(static_cast<uint64_t>(rows), static_cast<uint64_t>(draw)));
  return source.read_alone(row * words + lane).fold();
}

// Each element holds the index of the next: `steps` reads of which none can start before the last has come back.
template <class Source>
HINTERLAND_FN int64_t follow(const Source& source, int64_t at, int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) at = source.read_alone(at);
  return at;
}

// What the kernels are given. They write to `sink` what almost never is written.

// `words` words in sequence.
struct SequenceParams {
  const void* base;
  int64_t words;
  uint32_t* sink;
};

// `draws` random rows of `words` 16-byte words, `words` threads a row.
struct RandomParams {
  const Word<16>* base;
  int64_t rows, words, draws;
  uint64_t seed;
  uint32_t* sink;
};

struct ChainParams {
  const int64_t* base;
  int64_t steps;
  int64_t* at;  // where the chain was left, and where it goes on
};

}  // namespace hinterland::probe
