// Every list of a graph once: what reading, and decoding, the neighbours costs before an algorithm does anything with them.
#pragma once

#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

struct ScanParams {
  const GraphWords* graph;
  char* scratch;  // that of a Frontier
  int64_t* sum;   // of all neighbours, added to
};

struct SumOfNeighbors {
  int64_t* total;
  int64_t sum = 0;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) {
    for (int k = 0; k < Batch::kSize; ++k)
      if (batch.from[k] >= 0) sum += batch.to[k];
  }
  HINTERLAND_FN void finish() const {
    const int64_t all = Warp::sum(sum);
    if (Warp::lane() == 0) atomic_add(*total, all);
  }
};

template <class Team, class Graph>
HINTERLAND_FN void scan_lists(Team& team, const Graph& graph, const Frontier& frontier, int64_t* sum) {
  visit_lists(team, graph, frontier, [](int64_t) { return true; }, [&](auto&) { return SumOfNeighbors{sum}; });
}

}  // namespace hinterland::graph
