// Breadth-first search and its verifier on the CPU.
#pragma once

#include <cstdint>

#include "graph/findings.hpp"
#include "hinterland/graph/bfs.hpp"

namespace hinterland::native {

// id_bytes (4 or 8) is the width of a parent.
void bfs(const graph::BfsParams& params, int id_bytes);

// In the order in which they are reported. kGraph, kClosed and kEdgeLevel are about an edge, the others about a vertex.
enum class BfsRule : int64_t { kNone, kSource, kReached, kTreeLevel, kGraph, kClosed, kEdgeLevel, kTreeEdge };

// `parents` may be null: then each vertex but the source must have an edge from any vertex one level nearer.
Finding verify_bfs(const graph::GraphWords& graph, int64_t source, const int32_t* levels, const int64_t* parents);

}  // namespace hinterland::native
