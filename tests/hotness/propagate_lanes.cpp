// The step of the hotness scores as a warp of a GPU makes it, pushed and pulled, against a loop over edges: random graphs with
// hubs, gaps, empty lists, values of 0 and minus infinity. Prints the first seed that goes wrong.
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "hinterland/hotness/propagate.hpp"
#include "lane_team.hpp"
#include "offset_widths.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

template <class Edge>
bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  const int vertices = 1 + random() % 150, kind = seed % 3;
  const bool mutual = seed / 3 % 2;
  std::vector<std::vector<int>> lists(vertices);
  const int edges = kind == 0 ? 2500 : kind == 1 ? 10 * vertices : vertices;  // hubs of several tasks, dense, with gaps
  for (int i = 0; i < edges; ++i) {
    const int u = random() % (kind == 0 ? std::min(vertices, 3) : vertices), v = random() % vertices;
    lists[u].push_back(v);
    if (mutual && u != v) lists[v].push_back(u);
  }
  const int64_t padding = random() % 40;  // edge arrays begin anywhere within a cache line
  std::vector<int64_t> offsets{0};
  std::vector<Edge> targets(padding, -1);
  std::vector<double> values(vertices), expected(vertices), sums(vertices, 1);
  for (int v = 0; v < vertices; ++v) {
    values[v] = random() % 3 == 0 ? 0 : random() % 40 == 0 ? -INFINITY : static_cast<double>(random()) / 1e9;
    targets.insert(targets.end(), lists[v].begin(), lists[v].end());
    offsets.push_back(static_cast<int64_t>(targets.size()) - padding);
    for (int u : lists[v]) expected[u] += values[v];
  }
  const HeldOffsets held(offsets, seed % 2);
  graph::GraphWords words{};
  words.num_vertices = vertices;
  words.num_edges = offsets.back();
  words.offsets = held.view();
  words.edges.home = targets.data() + padding;

  HeldFrontier held_frontier(vertices, words.num_edges);
  const graph::Frontier& frontier = held_frontier.frontier;
  Lanes::run([&] {
    LaneTeam team;
    hotness::propagate(team, graph::Csr<Edge>(words), frontier, values.data(), sums.data(), mutual);
  });
  for (int v = 0; v < vertices; ++v) {
    if (sums[v] == expected[v] + 1) continue;  // infinity, too
    if (!(std::abs(sums[v] - expected[v] - 1) < 1e-9 * (1 + expected[v]))) return false;
  }
  return frontier.control->bad == graph::FrontierControl::kNone;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < 12; ++seed)
    if (!agrees<int32_t>(seed) || !agrees<int64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
