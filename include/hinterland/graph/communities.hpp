// A random graph with hubs and with communities: Kronecker's degrees (Graph500; R-MAT, Chakrabarti et al. 2004), and a bias
// towards neighbours of the own community, as in a stochastic block model (Holland et al. 1983). Between vertices of one
// type, or from those of one to those of another. It is what labels are made from that a graph neural network can learn.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/graph/csr.hpp"
#include "hinterland/graph/generate.hpp"
#include "hinterland/graph/permute.hpp"

namespace hinterland::graph {

// Vertices of one type. Before they are renumbered, x is in community x mod `communities` (and small numbers are hubs), so
// that a vertex of another community with about the same degree is never far.
struct CommunityVertices {
  uint64_t seed;
  int64_t count;
  int64_t communities;

  HINTERLAND_FN Permutation renumber() const { return Permutation(stream_key(seed, Stream::kPermutation), count); }

  HINTERLAND_FN int64_t community(int64_t x) const { return x % communities; }

  // The vertex of community `wanted` next to x; x itself where the type has none.
  HINTERLAND_FN int64_t moved(int64_t x, int64_t wanted) const {
    int64_t y = x - x % communities + wanted;
    if (y >= count) y -= communities;
    return y < 0 ? x : y;
  }
};

// Edge i as an entry of the list of `from`, a vertex of `owners`, that holds `to`, a vertex of `members`.
class CommunityLists {
 public:
  HINTERLAND_FN CommunityLists(uint64_t seed, const CommunityVertices& owners, const CommunityVertices& members)
      : random_{seed},
        owners_(owners),
        members_(members),
        renumber_owner_(owners.renumber()),
        renumber_member_(members.renumber()) {
    while ((int64_t{1} << levels_) < max_of(owners.count, members.count)) ++levels_;
  }

  HINTERLAND_FN Edge operator()(int64_t i) const {
    uint64_t owner = 0, member = 0;
    for (int first = 0; first < levels_; first += 8) {
      const Philox::Block block = random_(static_cast<uint64_t>(i), static_cast<uint64_t>(1 + first / 8));
      for (int k = 0; k < 8; ++k) {
        if (first + k >= levels_) break;
        const uint32_t word = block.word[k / 2] >> k % 2 * 16 & 0xFFFF;
        owner = 2 * owner + (word >= kLower);
        member = 2 * member + ((word >= kUpperRight && word < kLower) || word >= kLowerRight);
      }
    }
    // Every fourth edge goes to the lists in turn: Kronecker's graph alone leaves about half of the vertices without any.
    const int64_t from = i % kTurn == 0 ? i / kTurn % owners_.count : scaled(owner, owners_.count);
    int64_t to = scaled(member, members_.count);
    if (random_(static_cast<uint64_t>(i)).word[0] < kOwn) to = members_.moved(to, owners_.community(from));
    return {renumber_owner_(from), renumber_member_(to)};
  }

 private:
  // Graph500's quadrants B (upper right), C (lower left) and D (lower right), out of 2^16.
  static constexpr uint32_t kUpperRight = static_cast<uint32_t>(0.57 * 65536.0);
  static constexpr uint32_t kLower = static_cast<uint32_t>(0.76 * 65536.0);
  static constexpr uint32_t kLowerRight = static_cast<uint32_t>(0.95 * 65536.0);
  static constexpr uint32_t kOwn = static_cast<uint32_t>(0.7 * 4294967296.0);  // edges that stay in the community
  static constexpr int64_t kTurn = 4;

  // [0, 2^levels) onto [0, count), in order.
  HINTERLAND_FN int64_t scaled(uint64_t x, int64_t count) const {
    return levels_ == 0 ? 0 : static_cast<int64_t>(Philox::multiply_high(x << (64 - levels_), static_cast<uint64_t>(count)));
  }

  Philox random_;
  CommunityVertices owners_, members_;
  Permutation renumber_owner_, renumber_member_;
  int levels_ = 0;
};

}  // namespace hinterland::graph
