// Every list of a graph once: what reading, and decoding, the neighbours costs before an algorithm does anything with them.
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::graph {

struct SumOfNeighbors {
  int64_t sum = 0;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) {
    for (int k = 0; k < Batch::kSize; ++k)
      if (batch.from[k] >= 0) sum += batch.to[k];
  }
};

// result[0] += the sum of all neighbours, result[1] += the bytes that their lists take in whole sectors. `scratch` is a
// frontier's, 0 in its first part: the lists are cut into tasks as those of a dense step of a traversal are.
template <class Graph>
__global__ void __launch_bounds__(512, 2) scan_lists(const GraphWords* words, char* scratch, int64_t* result) {
  const Graph graph(*words);
  const Frontier frontier(scratch, FrontierLayout(graph.num_vertices, graph.num_edges), graph.num_vertices);
  GridTeam team(&frontier.control->team);
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
