// Widest paths from one vertex: over all paths, the largest of their least weights. The driver is that of shortest paths.
#pragma once

#include "hinterland/graph/sssp.hpp"

namespace hinterland::graph {

// A key is the complement of a width, in the order of the weights: a wider path has a smaller key. Weights may be negative.
template <class WeightType>
struct Widest {
  using Weight = WeightType;
  using Key = KeyFor<Weight>;
  static constexpr bool kFloat = stdlib::is_floating_point_v<Weight>;
  // The key of minus infinity, or of the least integer of Key's size, which is no weight.
  static constexpr Key kUnset = kFloat ? static_cast<Key>(kSignBit<Key> | kInfinityBits<Key>) : static_cast<Key>(~Key{0});

  HINTERLAND_FN static Key key_of(Weight weight) {
    if constexpr (kFloat) {
      const Key bits = stdlib::bit_cast<Key>(weight + Weight{0});  // -0.0 becomes 0.0
      return bits & kSignBit<Key> ? bits : bits ^ static_cast<Key>(~kSignBit<Key>);
    } else {
      return static_cast<Key>(weight) ^ static_cast<Key>(~kSignBit<Key>);
    }
  }

  // The largest number of the weights' type, or infinity.
  HINTERLAND_FN static Key source() {
    if constexpr (kFloat) {
      return kInfinityBits<Key> ^ static_cast<Key>(~kSignBit<Key>);
    } else {
      return key_of(stdlib::numeric_limits<Weight>::max());
    }
  }
  HINTERLAND_FN static Key extend(Key key, Weight weight) { return max_of(key, key_of(weight)); }
  HINTERLAND_FN static double between(Key base, Key key) { return static_cast<double>(key - base); }
  HINTERLAND_FN static Key past(Key least, double delta) { return key_past(least, delta, kUnset); }
};

}  // namespace hinterland::graph
