// Every list of a graph once: what reading, and decoding, the neighbours costs before an algorithm does anything with them.
#pragma once

#include "hinterland/graph/visit.hpp"

namespace hinterland::graph {

struct ScanParams {
  const GraphWords* graph;
  char* scratch;    // FrontierLayout
  int64_t* result;  // [2], added to: the sum of all neighbours, and the bytes of their lists in whole sectors
};

struct SumOfNeighbors {
  int64_t sum = 0;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) {
    for (int k = 0; k < Batch::kSize; ++k)
      if (batch.from[k] >= 0) sum += batch.to[k];
  }
};

// The lists are cut into tasks as those of a dense step of a traversal are.
template <class Team, class Graph>
HINTERLAND_FN void scan_lists(Team& team, const Graph& graph, const Frontier& frontier, int64_t* result) {
  team.loop(frontier.num_groups, [&](const auto& ranges) {
    auto tasks = team.appender(frontier.task_bag(0));
    EnterNothing enter;
    StepCounts counts;
    ranges([&](int64_t first, int64_t last) {
      const int64_t group = first + Warp::lane(), in_group = min_of<int64_t>(graph.num_vertices - group * kGroup, kGroup);
      if (group < last) frontier.next[group] = Warp::kAll >> (kGroup - in_group);
      collect(graph, frontier, frontier.all_groups(), first, last, enter, tasks, counts);
    });
  });
  team.take(frontier.num_tasks(0), [&](const auto& items) {
    SumOfNeighbors sum;
    StepCounts counts;
    items([&](int64_t i) { visit(graph, frontier, frontier.tasks[i], sum, counts); });
    const int64_t all = Warp::sum(sum.sum), bytes = Warp::sum(counts.bytes);
    if (Warp::lane() == 0) atomic_add(result[0], all), atomic_add(result[1], bytes);
  });
}

}  // namespace hinterland::graph
