// How Python gives the arrays of a graph: one after another, with what there is to say of each.
#pragma once

#include "bindings.hpp"
#include "graph/build.hpp"

namespace hinterland::native {

template <>
struct Argument<NeighborArray> {
  using Parts = std::tuple<uintptr_t, int>;
  static NeighborArray whole(uintptr_t address, int bytes) { return {reinterpret_cast<void*>(address), bytes}; }
};

template <>
struct Argument<WeightArray> {
  using Parts = std::tuple<uintptr_t, int, int>;
  static WeightArray whole(uintptr_t address, int bytes, int order) {
    return {bytes ? reinterpret_cast<void*>(address) : nullptr, bytes, static_cast<WeightOrder>(order)};
  }
};

}  // namespace hinterland::native
