// Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
// The n-th value depends on the key and on n alone, so any thread of any processor may draw it.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {

struct Philox {
  struct Block {
    uint32_t word[4];

    HINTERLAND_FN uint64_t half(int i) const { return static_cast<uint64_t>(word[2 * i + 1]) << 32 | word[2 * i]; }
  };

  uint64_t key;

  // 128 random bits for a 128-bit counter (high, low).
  HINTERLAND_FN Block operator()(uint64_t low, uint64_t high = 0) const {
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    Block c{{static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
             static_cast<uint32_t>(high >> 32)}};
    for (int round = 0; round < 10; ++round) {
      const uint64_t p0 = 0xD2511F53ull * c.word[0], p1 = 0xCD9E8D57ull * c.word[2];
      c = Block{{static_cast<uint32_t>(p1 >> 32) ^ c.word[1] ^ k0, static_cast<uint32_t>(p1),
                 static_cast<uint32_t>(p0 >> 32) ^ c.word[3] ^ k1, static_cast<uint32_t>(p0)}};
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    return c;
  }

  HINTERLAND_FN uint64_t bits64(uint64_t low, uint64_t high = 0) const { return (*this)(low, high).half(0); }

  // Uniform in [0, bound), by multiply and shift (Lemire 2019); the bias is below bound / 2^64.
  HINTERLAND_FN uint64_t below(uint64_t bound, uint64_t low, uint64_t high = 0) const {
    return multiply_high(bits64(low, high), bound);
  }

  HINTERLAND_FN static uint64_t multiply_high(uint64_t a, uint64_t b) {
#if HINTERLAND_ON_GPU
    return __umul64hi(a, b);
#else
    return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
  }
};

}  // namespace hinterland
