// Distances as unsigned numbers of which a smaller one is better, so that an atomic minimum finds the shorter path.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::graph {

template <class Weight>
using KeyFor = stdlib::conditional_t<sizeof(Weight) == 8, uint64_t, uint32_t>;

template <class Key>
inline constexpr Key kSignBit = Key{1} << (8 * sizeof(Key) - 1);

// The bits of infinity in the float type as wide as Key.
template <class Key>
inline constexpr Key kInfinityBits = sizeof(Key) == 8 ? static_cast<Key>(0x7ff0000000000000) : static_cast<Key>(0x7f800000);

// least + delta, but always more than least, and at most `most`.
template <class Key>
HINTERLAND_FN Key key_past(Key least, double delta, Key most) {
  if (least >= most || delta >= static_cast<double>(most - least)) return most;
  return least + max_of(Key{1}, static_cast<Key>(delta));
}

// Policy of shortest paths: a key is a distance. Weights are not negative. Non-negative floats order as their bits do.
template <class WeightType>
struct Shortest {
  using Weight = WeightType;
  using Key = KeyFor<Weight>;
  static constexpr bool kFloat = stdlib::is_floating_point_v<Weight>;
  static constexpr Key kUnset = kFloat ? kInfinityBits<Key> : static_cast<Key>(~Key{0});
  // For integers: the distance is more than kMost, the most that keys of four bytes, or results of eight, can say.
  static constexpr Key kOverflow = static_cast<Key>(~Key{0} - 1);
  static constexpr Key kMost = sizeof(Key) == 8 ? static_cast<Key>(~kSignBit<Key>) : static_cast<Key>(kOverflow - 1);

  HINTERLAND_FN static constexpr Key source() { return 0; }

  HINTERLAND_FN static Key extend(Key key, Weight weight) {
    if constexpr (kFloat) {
      return stdlib::bit_cast<Key>(stdlib::bit_cast<Weight>(key) + weight);
    } else {
      return key > kMost || static_cast<Key>(weight) > kMost - key ? kOverflow : key + static_cast<Key>(weight);
    }
  }

  // How far `key` lies behind `base`, which is no worse.
  HINTERLAND_FN static double between(Key base, Key key) {
    if constexpr (kFloat) {
      return static_cast<double>(stdlib::bit_cast<Weight>(key)) - static_cast<double>(stdlib::bit_cast<Weight>(base));
    } else {
      return static_cast<double>(key - base);
    }
  }

  // The threshold for a bucket that begins at `least`.
  HINTERLAND_FN static Key past(Key least, double delta) {
    if constexpr (kFloat) {
      const double sum = static_cast<double>(stdlib::bit_cast<Weight>(least)) + delta;
      return min_of(kUnset, max_of(static_cast<Key>(least + 1), stdlib::bit_cast<Key>(static_cast<Weight>(sum))));
    } else {
      return key_past(least, delta, kUnset);
    }
  }
};

}  // namespace hinterland::graph
