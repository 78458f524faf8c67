// Shortest and widest paths and their verifiers on the CPU.
#pragma once

#include <cstdint>

#include "graph/findings.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/sssp.hpp"

namespace hinterland::native {

void sssp(const graph::PathParams& params, WeightKind kind);
void sswp(const graph::PathParams& params, WeightKind kind);

// In the order in which they are reported. kGraph and kEdge are about an edge, the others about a vertex.
enum class PathRule : int64_t { kNone, kSource, kRange, kGraph, kEdge, kTight };

// Lists are not compressed. `found` are distances, or widths if `widest`: int64 for integer weights, else of the weights' type.
Finding verify_paths(const graph::GraphWords& words, WeightKind kind, bool widest, int64_t source, const void* found);

}  // namespace hinterland::native
