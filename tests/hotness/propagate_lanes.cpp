// The step of the hotness scores as a warp of a GPU makes it, pushed and pulled, against a loop over edges: random graphs with
// hubs, gaps, empty lists, lists about as long as they are cut, values of 0 and minus infinity. Prints the first seed that goes
// wrong.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "hinterland/hotness/propagate.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

template <class Graph>
bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  const int vertices = 1 + random() % 150, kind = seed % 4;
  const bool mutual = seed / 4 % 2;
  Adjacency lists(vertices);
  const int edges = kind == 0 ? 2500 : kind == 1 ? 10 * vertices : vertices;  // hubs of several tasks, dense, with gaps
  for (int i = 0; i < edges; ++i) {
    const int u = random() % (kind == 0 ? std::min(vertices, 3) : vertices), v = random() % vertices;
    lists[u].push_back(v);
    if (mutual && u != v) lists[v].push_back(u);
  }
  for (int hub = 0; kind == 3 && hub < std::min(vertices, 3); ++hub)
    for (int i = hub_length(random); i > 0; --i) {
      const int v = random() % vertices;
      lists[hub].push_back(v);
      if (mutual && hub != v) lists[v].push_back(hub);
    }
  if (kind == 3 && !mutual) {  // the lists of a group, which are read as one, end within a line or with it
    int all = random() % 32;
    for (int v = 0; v < std::min(vertices, graph::kGroup); ++v) all += static_cast<int>(lists[v].size());
    for (; all % graph::kTaskEdges != 0; ++all) lists[std::min(vertices, graph::kGroup) - 1].push_back(random() % vertices);
  }
  hubs::sort_lists(lists);
  std::vector<double> values(vertices), expected(vertices), sums(vertices, 1);
  for (int v = 0; v < vertices; ++v) {
    values[v] = random() % 3 == 0 ? 0 : random() % 40 == 0 ? -INFINITY : static_cast<double>(random()) / 1e9;
    for (int u : lists[v]) expected[u] += values[v];
  }
  const ListArrays<Graph> held(lists, random() % 40, 0, random());
  const Graph graph(held.words);

  HeldFrontier held_frontier(vertices, graph.num_edges);
  const graph::Frontier& frontier = held_frontier.frontier;
  Lanes::run([&] {
    LaneTeam team;
    hotness::propagate(team, graph, frontier, values.data(), sums.data(), mutual);
  });
  for (int v = 0; v < vertices; ++v) {
    if (sums[v] == expected[v] + 1) continue;  // infinity, too
    if (!(std::abs(sums[v] - expected[v] - 1) < 1e-9 * (1 + expected[v]))) return false;
  }
  return frontier.control->bad == graph::FrontierControl::kNone;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < 24; ++seed)
    if (!agrees<graph::Csr<int32_t>>(seed) || !agrees<graph::Csr<int64_t>>(seed) ||
        (seed % 4 == 3 && !agrees<graph::PackedCsr<int32_t>>(seed))) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
