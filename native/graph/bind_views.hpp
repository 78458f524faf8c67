// What the bindings of all traversals share.
#pragma once

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <tuple>

#include "bindings.hpp"
#include "core/bind_team.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/frontier.hpp"
#include "memory/array_words.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::Offsets, at, bytes);
HINTERLAND_STRUCT(graph::GraphWords, num_vertices, num_edges, edge_bytes, offsets, edges, weights, adjacency_prefix,
                  prefix_length, num_isolated, packed, packed_offsets, packed_end, metered);
HINTERLAND_STRUCT(memory::TierCount, requests, hits, useful);
HINTERLAND_STRUCT(graph::StepRecord, vertices, tasks, edges, pulled, start_ns, visit_ns, home, kept);
HINTERLAND_STRUCT(graph::FrontierControl, depth, bad, end_ns, padding0, team, num_touched, padding1, num_tasks, num_parts,
                  padding2, vertices, edges, reached, explored, padding3);

template <>
struct Argument<WeightKind> {
  using Parts = std::tuple<int64_t, int64_t>;
  static WeightKind whole(int64_t bytes, int64_t order) { return {bytes, order}; }
};

// The offset of an array in the scratch memory of a state without memory: its address.
inline int64_t offset_of(const void* array) { return reinterpret_cast<intptr_t>(array); }

// Bytes of a traversal's scratch memory, how many at its beginning must be zero, and where control and records lie in it.
inline std::tuple<int64_t, int64_t, int64_t, int64_t> scratch_layout(const graph::Scratch& none,
                                                                     const graph::Frontier& frontier) {
  return {none.bytes, none.zeroed, offset_of(frontier.control), offset_of(frontier.records)};
}

// The same of a run's state, and where what the run leaves behind lies.
template <class State, class Control>
void def_layout(nanobind::module_& m, const char* name, Control* State::* left) {
  m.def(
      name,
      [left](int64_t num_vertices, int64_t num_edges) {
        const State none({}, num_vertices, num_edges);
        return std::pair(scratch_layout(none.scratch, none.frontier), offset_of(none.*left));
      },
      nanobind::arg("num_vertices"), nanobind::arg("num_edges"));
}

}  // namespace hinterland::native
