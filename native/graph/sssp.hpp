// Shortest and widest paths and their verifiers on the CPU.
#pragma once

#include <cstdint>

#include "graph/views.hpp"

namespace hinterland::native {

// Arguments are those of the kernels in sssp.cu and sswp.cu.
void sssp(const graph::GraphWords& words, WeightKind kind, int64_t source, void* keys, char* scratch, double delta, int64_t light);
void sswp(const graph::GraphWords& words, WeightKind kind, int64_t source, void* keys, char* scratch, double delta, int64_t light);

// In the order in which they are reported. kGraph and kEdge are about an edge, the others about a vertex.
enum class PathRule : int64_t { kNone, kSource, kRange, kGraph, kEdge, kTight };

// The first rule that does not hold, and the smallest vertex, or position in the edge array, where it does not.
struct PathFinding {
  PathRule rule;
  int64_t position;
};

// Lists are not compressed. `found` are distances, or widths if `widest`: int64 for integer weights, else of the weights' type.
PathFinding verify_paths(const graph::GraphWords& words, WeightKind kind, bool widest, int64_t source, const void* found);

}  // namespace hinterland::native
