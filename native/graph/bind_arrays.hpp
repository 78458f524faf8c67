// How Python gives the arrays of a graph: one after another, with what there is to say of each.
#pragma once

#include "bindings.hpp"
#include "graph/compress.hpp"

namespace hinterland::native {

template <>
struct Given<NeighborArray> {
  using Parts = std::tuple<uintptr_t, int>;
  static NeighborArray whole(uintptr_t address, int bytes) { return {reinterpret_cast<void*>(address), bytes}; }
};

template <>
struct Given<WeightArray> {
  using Parts = std::tuple<uintptr_t, int, int>;
  static WeightArray whole(uintptr_t address, int bytes, int order) {
    return {bytes ? reinterpret_cast<void*>(address) : nullptr, bytes, static_cast<WeightOrder>(order)};
  }
};

template <>
struct Given<const PackedArrays&> {
  using Parts = std::tuple<uintptr_t, uintptr_t, uintptr_t, int64_t, int64_t, int64_t, int64_t>;
  static PackedArrays whole(uintptr_t indptr, uintptr_t offsets, uintptr_t stream, int64_t stream_bytes, int64_t rows,
                            int64_t vertices, int64_t edges) {
    return {reinterpret_cast<const int64_t*>(indptr),
            reinterpret_cast<const int64_t*>(offsets),
            reinterpret_cast<const void*>(stream),
            rows,
            vertices,
            edges,
            stream_bytes};
  }
};

}  // namespace hinterland::native
