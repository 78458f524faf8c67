// EMOGI's traversals on the CPU. A case is the arrays of one level and the three policies by name.
#pragma once

#include <cstdint>
#include <string>

#include "hinterland_papers/emogi/traversal.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(emogi::Division, offsets, num_vertices, num_edges, size, first_vertices, tiles, num_tiles);
HINTERLAND_STRUCT(emogi::EmogiState, num_vertices, values, active, beside, weights, level, report);
HINTERLAND_STRUCT(emogi::EmogiParams, division, edges, state);

// The arrays of one level, of which the state may be left out, and the policies.
struct EmogiCase {
  emogi::EmogiParams params;
  int edge_bytes;
  std::string access, assignment;
};

template <class Body>
void with_access(const std::string& name, Body&& body) {
  if (name == "naive") return body(emogi::NaiveAccess{});
  if (name == "merged") return body(emogi::MergedAccess{});
  return body(emogi::AlignedAccess{});
}

// body(access, assignment, edge) with values of the case's types; Python has checked the names.
template <class Body>
void with_policies(const EmogiCase& run, Body&& body) {
  with_access(run.access, [&](auto access) {
    const auto with_edges = [&](const auto& assignment) {
      if (run.edge_bytes == 4)
        body(access, assignment, int32_t{});
      else
        body(access, assignment, int64_t{});
    };
    if (run.assignment == "vertices") return with_edges(emogi::ConsecutiveVertices{run.params.division});
    if (run.assignment == "transposed") return with_edges(emogi::TransposedVertices{run.params.division});
    return with_edges(emogi::EdgeTiles{run.params.division});
  });
}

}  // namespace hinterland::native
