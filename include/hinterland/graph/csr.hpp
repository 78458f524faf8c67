// Compressed sparse rows (CSR): the neighbours of v are indices[indptr[v]] .. indices[indptr[v + 1] - 1]. Here is what one
// edge and one offset mean; native/graph/build.cpp and the generators' kernels loop over them.
#pragma once

#include "hinterland/core/platform.hpp"

namespace hinterland::graph {

struct Edge {
  int64_t from, to;
};

// How an input edge becomes entries of rows.
struct EdgeRules {
  bool mirror = false;      // also the edge in the other direction; a self loop is its own mirror and is stored once
  bool flip = false;        // the rows belong to the edges' targets: the transposed graph
  bool drop_loops = false;  // an edge from a vertex to itself adds nothing

  HINTERLAND_FN int directions() const { return mirror ? 2 : 1; }
};

struct RowEntry {
  int64_t row, neighbor;
  bool kept;
};

// What edge `e` adds in direction 0 (as given) or 1 (mirrored).
HINTERLAND_FN RowEntry row_entry(const EdgeRules& rules, Edge e, int direction) {
  const bool loop = e.from == e.to;
  const bool turned = (direction == 1) != rules.flip;
  return {turned ? e.to : e.from, turned ? e.from : e.to, !(loop && (rules.drop_loops || direction == 1))};
}

// Whether offset `i` of `vertices` + 1 breaks the promise of CSR: 0 first, never falling, the number of edges last.
template <class Offsets>
HINTERLAND_FN bool offset_is_wrong(const Offsets& indptr, int64_t i, int64_t vertices, int64_t edges) {
  const int64_t here = indptr[i];
  if (i == 0 ? here != 0 : here < indptr[i - 1]) return true;
  return i == vertices && here != edges;
}

}  // namespace hinterland::graph
