// What the bindings of all traversals share.
#pragma once

#include <cstdint>
#include <tuple>

#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/frontier.hpp"

namespace hinterland::native {

inline const graph::GraphWords* words(uintptr_t address) { return reinterpret_cast<const graph::GraphWords*>(address); }

// Bytes of a traversal's scratch memory, how many at its beginning must be zero, and where control and records lie in it.
template <class AlgorithmLayout>
std::tuple<int64_t, int64_t, int64_t, int64_t> scratch_layout(const AlgorithmLayout& at, const graph::FrontierLayout& frontier) {
  return {at.bytes, at.zeroed, frontier.control, frontier.records};
}

}  // namespace hinterland::native
