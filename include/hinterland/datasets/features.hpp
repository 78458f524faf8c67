// Features of vertices in communities (graph/communities.hpp): each community has a centre, and a vertex shows its own
// community's, or any other's, under noise. A vertex's features alone therefore say no more than a share of the labels;
// together with its neighbours' they say most.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/graph/generate.hpp"

namespace hinterland::datasets {

class CommunityFeatures {
 public:
  static constexpr int kGroup = 128;  // columns whose centres one random block decides
  static constexpr int kQuad = 4;     // columns whose noise one random block decides

  HINTERLAND_FN CommunityFeatures(uint64_t seed, int64_t communities)
      : noise_{stream_key(seed, graph::Stream::kFeatures)},
        centers_{stream_key(seed, graph::Stream::kCenters)},
        communities_(static_cast<uint64_t>(communities)) {}

  // The community whose centre `vertex` shows.
  HINTERLAND_FN int64_t featured(int64_t vertex, int64_t community) const {
    const Philox::Block b = noise_(static_cast<uint64_t>(vertex), ~uint64_t{0});
    if (b.word[0] >= kAstray) return community;
    const uint64_t bits = (static_cast<uint64_t>(b.word[1]) << 32) | b.word[2];
    return static_cast<int64_t>(Philox::multiply_high(bits, communities_));
  }

  // The centre of community `featured` in columns [kGroup * group, kGroup * (group + 1)): a sign in each bit.
  HINTERLAND_FN Philox::Block center(int64_t featured, int64_t group) const {
    return centers_(static_cast<uint64_t>(featured), static_cast<uint64_t>(group));
  }

  // The features of `vertex` in columns [kQuad * quad, kQuad * (quad + 1)), of which `center` is the group's. The noise is the
  // sum of four uniform bytes, nearly normal with a deviation of 1.15; every value is a multiple of 1/128 below 8, so float16
  // holds it exactly and no processor rounds it.
  HINTERLAND_FN void values(int64_t vertex, int64_t quad, const Philox::Block& center, float* to) const {
    const Philox::Block noise = noise_(static_cast<uint64_t>(vertex), static_cast<uint64_t>(quad));
    const int column = static_cast<int>(quad * kQuad % kGroup);
    for (int k = 0; k < kQuad; ++k) {
      const uint32_t word = noise.word[k];
      const int sum = static_cast<int>((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));
      const bool up = center.word[(column + k) / 32] >> (column + k) % 32 & 1;
      to[k] = static_cast<float>(sum - 2 * 255 + (up ? kSignal : -kSignal)) / 128.0f;
    }
  }

 private:
  static constexpr uint32_t kAstray = static_cast<uint32_t>(kAstrayShare * 4294967296.0);

  Philox noise_, centers_;
  uint64_t communities_;
};

// What is given to those who fill in the features of vertices [begin, end).
struct FeatureParams {
  uint64_t seed;
  int64_t communities;
  const int32_t* community_of;  // of vertices from `begin` on
  int64_t begin, end;
  int64_t columns;
  float* to;  // [end - begin, columns]
};

}  // namespace hinterland::datasets
