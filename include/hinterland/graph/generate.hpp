// Random graphs edge by edge: edge i is a function of the seed and of i alone, so every thread of every processor may make
// any edge at any time, and making one again is cheaper than storing it.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/graph/csr.hpp"
#include "hinterland/graph/permute.hpp"

namespace hinterland::graph {

// What all generators are made from. Kronecker graphs have 2^scale vertices; a grid has rows of `columns` vertices.
struct GraphShape {
  uint64_t seed;
  int64_t vertices;
  int64_t scale;
  int64_t columns;
};

// What the kernels of generate.cu are given.
struct CountRowsParams {
  GraphShape shape;
  int64_t edges;
  int64_t* degrees;  // [vertices], added to
};

struct RowKeysParams {
  GraphShape shape;
  int64_t edges;
  int64_t first_row, end_row;
  int64_t bits;     // a key is row << bits | neighbour
  int64_t* cursor;  // keys so far
  int64_t* keys;
};

struct KeyWeightsParams {
  const int64_t* keys;
  int64_t count, bits;
  uint64_t seed;
  void* weights;  // Weight [count]
};

// Independent random streams of one seed. Edges draw from Philox(seed) at counters whose upper half is small, so these
// keys, drawn where it is all ones, are not among their values.
enum class Stream : uint64_t { kPermutation = 1, kWeights = 2, kFeatures = 3, kCenters = 4 };

HINTERLAND_FN uint64_t stream_key(uint64_t seed, Stream stream) {
  return Philox{seed}.bits64(static_cast<uint64_t>(stream), ~uint64_t{0});
}

// Graph500's Kronecker graph (specification, section 3.2; R-MAT, Chakrabarti et al. 2004): each level halves the adjacency
// matrix both ways and picks a quadrant with probabilities A, B, C and D = 1 - A - B - C.
class Kronecker {
 public:
  HINTERLAND_FN explicit Kronecker(const GraphShape& shape)
      : random_{shape.seed},
        renumber_(stream_key(shape.seed, Stream::kPermutation), shape.vertices),
        scale_(static_cast<int>(shape.scale)) {}

  HINTERLAND_FN Edge operator()(int64_t i) const {
    int64_t from = 0, to = 0;
    for (int level = 0; level < scale_; level += 4) {
      const Philox::Block block = random_(static_cast<uint64_t>(i), static_cast<uint64_t>(level / 4));
      for (int k = 0; k < 4; ++k) {
        if (level + k >= scale_) break;
        const uint32_t word = block.word[k];
        from = 2 * from + (word >= kLower);
        to = 2 * to + ((word >= kUpperRight && word < kLower) || word >= kLowerRight);
      }
    }
    return {renumber_(from), renumber_(to)};
  }

 private:
  // The first random words of the quadrants B (upper right), C (lower left) and D (lower right), out of 2^32.
  static constexpr uint32_t kUpperRight = static_cast<uint32_t>(0.57 * 4294967296.0);
  static constexpr uint32_t kLower = static_cast<uint32_t>(0.76 * 4294967296.0);
  static constexpr uint32_t kLowerRight = static_cast<uint32_t>(0.95 * 4294967296.0);

  Philox random_;
  Permutation renumber_;
  int scale_;
};

// Both ends uniform and independent. Renumbering would not change this distribution, so there is none.
class Uniform {
 public:
  HINTERLAND_FN explicit Uniform(const GraphShape& shape) : random_{shape.seed}, vertices_(shape.vertices) {}

  HINTERLAND_FN Edge operator()(int64_t i) const {
    const Philox::Block b = random_(static_cast<uint64_t>(i));
    return {pick(b.half(0)), pick(b.half(1))};
  }

 private:
  HINTERLAND_FN int64_t pick(uint64_t bits) const {
    return static_cast<int64_t>(Philox::multiply_high(bits, static_cast<uint64_t>(vertices_)));
  }

  Philox random_;
  int64_t vertices_;
};

// Each vertex of a rows x columns grid is joined with those right of it and below it. The horizontal edges come first.
class Grid {
 public:
  HINTERLAND_FN explicit Grid(const GraphShape& shape)
      : renumber_(stream_key(shape.seed, Stream::kPermutation), shape.vertices),
        columns_(shape.columns),
        horizontal_(shape.vertices / shape.columns * (shape.columns - 1)) {}

  HINTERLAND_FN Edge operator()(int64_t i) const {
    if (i < horizontal_) {
      const int64_t left = i / (columns_ - 1) * columns_ + i % (columns_ - 1);
      return {renumber_(left), renumber_(left + 1)};
    }
    const int64_t upper = i - horizontal_;
    return {renumber_(upper), renumber_(upper + columns_)};
  }

 private:
  Permutation renumber_;
  int64_t columns_, horizontal_;
};

// A weight for the edge between u and v: the same in both directions and for parallel edges. Integers are uniform from 1 to
// 255, as in the GAP suite; floats are uniform in [1/256, 1), multiples of 2^-24, so that no processor rounds them. Both come
// from one draw: the integer is 256 times the float, rounded down.
template <class Weight>
class EdgeWeight {
 public:
  HINTERLAND_FN explicit EdgeWeight(uint64_t seed) : random_{stream_key(seed, Stream::kWeights)} {}

  HINTERLAND_FN Weight operator()(int64_t u, int64_t v) const {
    const uint64_t low = static_cast<uint64_t>(min_of(u, v)), high = static_cast<uint64_t>(max_of(u, v));
    const uint32_t drawn = kLeast + static_cast<uint32_t>(random_.below(255 * kLeast, low, high));
    constexpr bool kWhole = static_cast<Weight>(0.5f) == Weight{0};
    if constexpr (kWhole) {
      return static_cast<Weight>(drawn / kLeast);
    } else {
      return static_cast<Weight>(drawn) / static_cast<Weight>(256 * kLeast);
    }
  }

 private:
  static constexpr uint32_t kLeast = 1 << 16;  // an integer weight of one

  Philox random_;
};

}  // namespace hinterland::graph
