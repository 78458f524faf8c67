// A lane that the others do not wait for, as a warp of its own: what is written against the type of a warp (core/warp.hpp) runs
// by either.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland {

struct Alone {
  static constexpr int kWidth = 1;

  HINTERLAND_FN static int lane() { return 0; }
  HINTERLAND_FN static uint32_t ballot(bool holds) { return holds ? 1u : 0u; }
  HINTERLAND_FN static bool any(bool holds) { return holds; }
  template <class T>
  HINTERLAND_FN static T broadcast(T value, int /*from*/) {
    return value;
  }
  template <class T>
  HINTERLAND_FN static T max(T value) {
    return value;
  }
  HINTERLAND_FN static uint32_t same(uint64_t /*value*/) { return 1; }
  HINTERLAND_FN static void sync() {}
};

}  // namespace hinterland
