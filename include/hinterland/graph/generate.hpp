// Random graphs edge by edge: edge i is a function of the seed and of i alone, so every thread of every processor may make
// any edge at any time, and making one again is cheaper than storing it.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/graph/csr.hpp"
#include "hinterland/graph/permute.hpp"

namespace hinterland::graph {

// What all generators are made from. Kronecker graphs have 2^scale vertices; a grid has rows of `columns` vertices, and in a
// ring each vertex is joined with the next `columns`.
struct GraphShape {
  uint64_t seed;
  int64_t vertices;
  int64_t scale;
  int64_t columns;
  int64_t permuted;  // whether vertices have random numbers, or those that the generator gives them
  int64_t share;     // of 2^32: edges of a grid that are missing, edges of a ring that lead anywhere
};

// What the kernels of generate.cu are given.
struct CountRowsParams {
  GraphShape shape;
  int64_t edges;
  int64_t mirror;    // whether an edge is in the rows of both its ends
  int64_t* degrees;  // [vertices], added to
};

struct RowKeysParams {
  GraphShape shape;
  int64_t edges;
  int64_t mirror;
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

// The number of the vertex at each place of a generator.
class Numbers {
 public:
  HINTERLAND_FN explicit Numbers(const GraphShape& shape)
      : permutation_(stream_key(shape.seed, Stream::kPermutation), shape.vertices), permuted_(shape.permuted != 0) {}

  HINTERLAND_FN int64_t operator()(int64_t place) const { return permuted_ ? permutation_(place) : place; }

 private:
  Permutation permutation_;
  bool permuted_;
};

// One of [0, count) by 64 random bits.
HINTERLAND_FN int64_t pick(uint64_t bits, int64_t count) {
  return static_cast<int64_t>(Philox::multiply_high(bits, static_cast<uint64_t>(count)));
}

// The square of a fraction of 2^64: of [0, count) it picks x with a density of x^(-1/2), and squared again of x^(-3/4). No
// processor rounds it.
HINTERLAND_FN uint64_t squared(uint64_t bits) { return Philox::multiply_high(bits, bits); }

// Graph500's Kronecker graph (specification, section 3.2; R-MAT, Chakrabarti et al. 2004): each level halves the adjacency
// matrix both ways and picks a quadrant with probabilities A, B, C and D = 1 - A - B - C.
class Kronecker {
 public:
  HINTERLAND_FN explicit Kronecker(const GraphShape& shape)
      : random_{shape.seed}, number_(shape), scale_(static_cast<int>(shape.scale)) {}

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
    return {number_(from), number_(to)};
  }

 private:
  // The first random words of the quadrants B (upper right), C (lower left) and D (lower right), out of 2^32.
  static constexpr uint32_t kUpperRight = static_cast<uint32_t>(0.57 * 4294967296.0);
  static constexpr uint32_t kLower = static_cast<uint32_t>(0.76 * 4294967296.0);
  static constexpr uint32_t kLowerRight = static_cast<uint32_t>(0.95 * 4294967296.0);

  Philox random_;
  Numbers number_;
  int scale_;
};

// Both ends uniform and independent. Renumbering would not change this distribution, so there is none.
class Uniform {
 public:
  HINTERLAND_FN explicit Uniform(const GraphShape& shape) : random_{shape.seed}, vertices_(shape.vertices) {}

  HINTERLAND_FN Edge operator()(int64_t i) const {
    const Philox::Block b = random_(static_cast<uint64_t>(i));
    return {pick(b.half(0), vertices_), pick(b.half(1), vertices_)};
  }

 private:
  Philox random_;
  int64_t vertices_;
};

// Each vertex of a rows x columns grid is joined with those right of it and below it. The horizontal edges come first. Places
// go row by row.
class Grid {
 public:
  HINTERLAND_FN explicit Grid(const GraphShape& shape)
      : random_{shape.seed},
        number_(shape),
        columns_(shape.columns),
        horizontal_(shape.vertices / shape.columns * (shape.columns - 1)),
        missing_(static_cast<uint64_t>(shape.share)) {}

  HINTERLAND_FN Edge operator()(int64_t i) const {
    if (missing_ > 0 && random_(static_cast<uint64_t>(i)).word[0] < missing_) return {0, 0};  // self loops are left out
    if (i < horizontal_) {
      const int64_t left = i / (columns_ - 1) * columns_ + i % (columns_ - 1);
      return {number_(left), number_(left + 1)};
    }
    const int64_t upper = i - horizontal_;
    return {number_(upper), number_(upper + columns_)};
  }

 private:
  Philox random_;
  Numbers number_;
  int64_t columns_, horizontal_;
  uint64_t missing_;
};

// A small world (Watts and Strogatz, 1998): each vertex of a ring is joined with the next few, and some of these edges lead to
// any vertex instead.
class VertexRing {
 public:
  HINTERLAND_FN explicit VertexRing(const GraphShape& shape)
      : random_{shape.seed},
        number_(shape),
        vertices_(shape.vertices),
        ahead_(shape.columns),
        rewired_(static_cast<uint64_t>(shape.share)) {}

  HINTERLAND_FN Edge operator()(int64_t i) const {
    const int64_t from = i / ahead_;
    const Philox::Block b = random_(static_cast<uint64_t>(i));
    const int64_t to = b.word[0] < rewired_ ? pick(b.half(1), vertices_) : (from + i % ahead_ + 1) % vertices_;
    return {number_(from), number_(to)};
  }

 private:
  Philox random_;
  Numbers number_;
  int64_t vertices_, ahead_;
  uint64_t rewired_;
};

// Pages that link to each other as those of the web do, numbered by host and path (docs/graph.md, "Web graphs"). Places are
// the leaves of a tree: 2^k places side by side, from a multiple of 2^k on, are a directory, a host or a domain, whose first
// pages are its most popular. A link goes some way up the tree from its page, and from there to a page below.
class Web {
 public:
  HINTERLAND_FN explicit Web(const GraphShape& shape) : random_{shape.seed}, number_(shape), vertices_(shape.vertices) {
    while ((int64_t{1} << top_) < vertices_) ++top_;
  }

  HINTERLAND_FN Edge operator()(int64_t i) const {
    const Philox::Block own = random_(static_cast<uint64_t>(i), kOwn);
    return i % kListed == kListed - 1 ? listed(i, own) : navigating(i - i / kListed, own);
  }

 private:
  static constexpr int64_t kListed = 8;            // of so many links one is of a long list
  static constexpr int kDirectory = 4, kHost = 8;  // of 2^4 and 2^8 pages
  static constexpr uint32_t kCommon = 3u << 30;    // of 2^32: links that a page has in common with its directory
  // Upper halves of counters.
  static constexpr uint64_t kOwn = 0, kTarget = 1, kLongList = 2, kPopular = 3, kReach = 4, kTemplate = 5;

  // Link i of all pages in turn: within the reach of its directory, whose pages have most of these links in common.
  HINTERLAND_FN Edge navigating(int64_t i, const Philox::Block& own) const {
    const int64_t from = i % vertices_;
    const uint64_t directory = static_cast<uint64_t>(from >> kDirectory);
    const int reach = ladder(random_(directory, kReach).word[0], kHost, top_, 1, 2);
    const uint64_t turn = static_cast<uint64_t>(i / vertices_);
    const Philox::Block drawn = own.word[0] < kCommon ? random_(directory, kTemplate + turn) : own;
    const int level = ladder(drawn.word[1], kDirectory, min_of(reach, top_), 15, 16);
    return {number_(from), number_(page(from >> level << level, level, squared(squared(drawn.half(1)))))};
  }

  // From one of the first pages of some host, with many links the more as the host ranks higher, to a popular page anywhere.
  HINTERLAND_FN Edge listed(int64_t i, const Philox::Block& own) const {
    const Philox::Block drawn = random_(static_cast<uint64_t>(i), kTarget);
    const int64_t from = page(host(squared(own.half(0)), kLongList), kHost, eighth_power(own.half(1)));
    const int64_t to = page(host(squared(squared(drawn.half(0))), kPopular), kHost, eighth_power(drawn.half(1)));
    return {number_(from), number_(to)};
  }

  // From `least` on, one level more for `up` of every `of` that came so far.
  HINTERLAND_FN static int ladder(uint32_t word, int least, int most, uint64_t up, uint64_t of) {
    uint64_t further = uint64_t{1} << 32;
    int level = least;
    while (level < most && word < (further = further * up / of)) ++level;
    return level;
  }

  // The first page of a host by its rank, a fraction of 2^64; hosts of all ranks are everywhere.
  HINTERLAND_FN int64_t host(uint64_t rank, uint64_t order) const {
    const int64_t hosts = ((vertices_ - 1) >> kHost) + 1;
    return pick(random_.bits64(static_cast<uint64_t>(pick(rank, hosts)), order), hosts) << kHost;
  }

  // Of half of all draws the first page of a host is the outcome.
  HINTERLAND_FN static uint64_t eighth_power(uint64_t bits) { return squared(squared(squared(bits))); }

  HINTERLAND_FN int64_t page(int64_t first, int level, uint64_t bits) const {
    return first + pick(bits, min_of(int64_t{1} << level, vertices_ - first));
  }

  Philox random_;
  Numbers number_;
  int64_t vertices_;
  int top_ = 0;
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
