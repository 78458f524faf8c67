// Traversal and its verifier on the CPU. Arrays are those of include/hinterland/graph/bfs.hpp; edge_bytes and id_bytes (4 or 8)
// are the widths of a neighbour and of a parent.
#pragma once

#include <cstdint>

namespace hinterland::native {

struct BfsArrays {
  const int64_t* offsets;
  const void* edges;
  int edge_bytes;
  int64_t num_vertices, num_edges;
};

void bfs_top_down(const BfsArrays& graph, int64_t source, void* parents, int id_bytes, int32_t* levels, char* scratch);

// In the order in which they are reported. kGraph, kClosed and kEdgeLevel are about an edge, the others about a vertex.
enum class BfsRule : int64_t { kNone, kSource, kReached, kTreeLevel, kGraph, kClosed, kEdgeLevel, kTreeEdge };

// The first rule that does not hold, and the smallest vertex, or position in the edge array, where it does not.
struct BfsFinding {
  BfsRule rule;
  int64_t position;
};

BfsFinding verify_bfs(const BfsArrays& graph, int64_t source, const int32_t* levels, const int64_t* parents);

}  // namespace hinterland::native
