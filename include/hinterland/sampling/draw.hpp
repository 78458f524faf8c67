// Random draws of samplers: a pure function of (seed, batch, purpose, place, draw), so that any thread of any processor makes
// any of them, and a sample depends on neither.
//
// A purpose has a Philox key of its own, made of the seed and the number of the mini-batch by Philox itself, and place and draw
// are the counter. Why draws are independent: for one key Philox is a bijection of 128-bit counters, whose blocks pass for
// independent uniform bits as long as no counter is used twice (Salmon et al. 2011, sections 2 and 4). A purpose never uses a
// counter twice: `place` is a vertex's number within the batch, which is in one frontier only, and `draw` counts what it
// draws. Two keys of one seed are equal with probability 2^-64.
#pragma once

#include "hinterland/core/philox.hpp"

namespace hinterland::sampling {

// Uniform in [0, 1), of random bits.
HINTERLAND_FN double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

class Draws {
 public:
  enum Purpose : uint64_t { kNeighbors, kTrials, kRaces, kWalks, kNegatives };

  static constexpr int kPlaceBits = 48;  // of a place; those above tell relations of one batch apart

  HINTERLAND_FN Draws(uint64_t seed, uint64_t batch, Purpose purpose)
      : philox_{Philox{seed}.bits64(batch, kSamplers + purpose)} {}

  HINTERLAND_FN Philox::Block bits(uint64_t place, uint64_t draw) const { return philox_(draw, place); }
  HINTERLAND_FN uint64_t bits64(uint64_t place, uint64_t draw) const { return philox_.bits64(draw, place); }

  // Uniform in [0, bound); the bias is below bound / 2^64.
  HINTERLAND_FN int64_t below(int64_t bound, uint64_t place, uint64_t draw) const {
    return static_cast<int64_t>(philox_.below(static_cast<uint64_t>(bound), draw, place));
  }

  // Exponential with mean 1, from draws below 2^kDrawBits, by von Neumann's comparisons ("Various techniques used in connection
  // with random digits", 1951): no logarithm, which two processors would round in two ways. A uniform u is followed by
  // smaller and smaller ones; their number, u included, is odd with probability e^-u, and then u is the fraction.
  HINTERLAND_FN double exponential(uint64_t place, uint64_t draw) const {
    uint64_t used = 0;
    Philox::Block block{};
    const auto next = [&] {
      if (used % 2 == 0) block = philox_(used / 2 << kDrawBits | draw, place);
      return block.half(static_cast<int>(used++ % 2));
    };
    for (int64_t whole = 0;; ++whole) {
      const uint64_t fraction = next();
      uint64_t least = fraction;
      bool odd = true;
      for (uint64_t u = next(); u < least; u = next()) {
        least = u;
        odd = !odd;
      }
      if (odd) return static_cast<double>(whole) + static_cast<double>(fraction) * 0x1p-64;
    }
  }

  static constexpr int kDrawBits = 56;

 private:
  static constexpr uint64_t kSamplers = 0x73616d706c657273;  // apart from what else a seed is used for

  Philox philox_;
};

}  // namespace hinterland::sampling
