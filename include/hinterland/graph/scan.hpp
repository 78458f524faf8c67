// Every list of a graph once: what reading, and decoding, the neighbours costs before an algorithm does anything with them.
#pragma once

#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

struct ScanParams {
  const GraphWords* graph;
  char* scratch;  // FrontierLayout
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
  team.single([&] {
    frontier.begin();
    frontier.begin_step(0, team.now_ns());
  });
  team.wait();  // nothing is reported before that
  const auto any = [](int64_t) { return true; };
  const GroupList all = frontier.all_groups();
  advance(team, graph, frontier, 0, all, where(frontier, all, any), [&](auto&) { return SumOfNeighbors{sum}; });
  team.single([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland::graph
