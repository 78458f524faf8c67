// One step backwards along the ways on which sampling goes: every vertex gives x(v) to all vertices that its list names,
//
//   sums(u) += sum over the lists v that hold u of x(v),
//
// as often as they hold it. All scores that come from the graph alone are a few such steps with something done to each vertex
// between them: what x is, docs/hotness.md says for each.
//
// Lists say whom v samples, not who samples u, so the step pushes: it needs no transposed graph, and it reads the lists of
// those vertices alone that have something to give. Where the graph is undirected a list says both, and the step may pull:
// every sum is then made in one place, and no atomic addition is needed for each edge.
//
// Sums are double precision, added in any order: they agree between runs and devices up to rounding.
#pragma once

#include "hinterland/graph/sum_over_lists.hpp"

namespace hinterland::hotness {

// A visitor: sums[u] += values[v] for every u in v's list.
struct PushAlongLists {
  const double* values;
  double* sums;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) const {
    double value[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k) value[k] = batch.from[k] < 0 ? 0 : values[batch.from[k]];
    for (int k = 0; k < Batch::kSize; ++k)
      if (batch.from[k] >= 0) atomic_add(sums[batch.to[k]], value[k]);
  }
};

struct PropagateParams {
  const graph::GraphWords* graph;
  const double* values;  // [vertices]
  double* sums;          // [vertices], added to
  int64_t pull;          // which an undirected graph allows
  char* scratch;         // that of a graph::Frontier
};

// The step. To pull, the graph must be undirected. Sums are added to what is there.
template <class Team, class Graph>
HINTERLAND_FN void propagate(Team& team, const Graph& graph, const graph::Frontier& frontier, const double* values,
                             double* sums, bool pull) {
  if (pull) {
    const auto all = [](int64_t) { return true; };
    visit_lists(team, graph, frontier, all, [&](auto&) { return graph::SumOverLists<double>(values, sums); });
  } else {
    const auto gives = [&](int64_t vertex) { return values[vertex] != 0; };
    visit_lists(team, graph, frontier, gives, [&](auto&) { return PushAlongLists{values, sums}; });
  }
}

}  // namespace hinterland::hotness
