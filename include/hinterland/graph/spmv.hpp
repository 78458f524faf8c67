// The adjacency matrix of a graph times a vector:
//
//   y(v) += sum over v's list of weight(v, u) x(u),
//
// with 1 for weights that are not read. With the lists of in-neighbours that is the transposed matrix. What walks and spectral
// scores do, from weighted PageRank to HITS, is a few such products with something done to each vertex between them.
//
// Sums are double precision, those of a list that tasks share in any order: products agree up to rounding.
#pragma once

#include "hinterland/graph/sum_over_lists.hpp"

namespace hinterland::graph {

struct SpmvParams {
  const GraphWords* graph;
  const double* x;  // [vertices]
  double* y;        // [vertices], added to
  char* scratch;    // that of a Frontier
};

template <class Team, class Graph>
HINTERLAND_FN void spmv(Team& team, const Graph& graph, const Frontier& frontier, const double* x, double* y) {
  visit_lists(team, graph, frontier, [](int64_t) { return true; }, [&](auto&) { return SumOverLists<double>(x, y); });
}

}  // namespace hinterland::graph
