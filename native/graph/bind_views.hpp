// What the bindings of all traversals share.
#pragma once

#include <cstdint>
#include <tuple>

#include "core/bind_team.hpp"
#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/frontier.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::Offsets, at, bytes);
HINTERLAND_STRUCT(graph::GraphWords, num_vertices, num_edges, edge_bytes, offsets, edges, weights, slots, hot_edges,
                  hot_weights, heads, heads_per_vertex, num_isolated, packed, packed_offsets, packed_end, metered);
HINTERLAND_STRUCT(memory::TierCount, bytes, requests, hits);
HINTERLAND_STRUCT(graph::StepRecord, vertices, tasks, edges, pulled, start_ns, visit_ns, home, kept);
HINTERLAND_STRUCT(graph::FrontierControl, depth, bad, end_ns, padding0, team, num_touched, padding1, num_tasks, num_parts,
                  padding2, vertices, edges, reached, explored, padding3);

inline const graph::GraphWords* words(uintptr_t address) { return reinterpret_cast<const graph::GraphWords*>(address); }

// Bytes of a traversal's scratch memory, how many at its beginning must be zero, and where control and records lie in it.
template <class AlgorithmLayout>
std::tuple<int64_t, int64_t, int64_t, int64_t> scratch_layout(const AlgorithmLayout& at,
                                                              const graph::FrontierLayout& frontier) {
  return {at.bytes, at.zeroed, frontier.control, frontier.records};
}

}  // namespace hinterland::native
