// Breadth-first search as a warp of a GPU does it, against a queue: random graphs with hubs, gaps, empty lists and edge arrays
// that begin anywhere within a cache line, and lists about as long as they are cut, plain and packed. Prints the first seed
// that goes wrong.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <queue>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/bfs.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

int64_t pulled = 0;  // levels that were searched bottom-up

Adjacency random_graph(std::mt19937& random) {
  const int kind = random() % 5, vertices = kind == 4 ? 600 + random() % 900 : 1 + random() % 300;
  Adjacency neighbours(vertices);
  const auto any = [&] { return static_cast<int>(random() % vertices); };
  const auto add = [&](int edges, auto source) {
    for (int i = 0; i < edges; ++i) neighbours[source()].push_back(any());
  };
  if (kind == 0)  // empty lists among those that fill a few lines
    for (auto& list : neighbours) list.resize(random() % 2 * (random() % 60)), std::generate(list.begin(), list.end(), any);
  if (kind == 1) add(8 * vertices, any), add(6000, [&] { return any() % 3; });  // hubs of several tasks
  if (kind == 2) add(20 * vertices, [&] { return any() / 7 * 7; });             // gaps between active vertices
  if (kind == 4)                                                                // many small levels, then a hub
    for (int v = 0; v < vertices; ++v) neighbours[v] = {(v + 1) % vertices, (v + 7) % vertices};
  if (kind == 4) add(5000, [&] { return vertices / 2; });
  if (kind == 3) add(40 * vertices, any);  // dense groups
  return neighbours;
}

template <class Graph, class Id>
bool agrees(const Adjacency& neighbours, int64_t source, std::mt19937& random) {
  const int64_t vertices = neighbours.size();
  std::vector<int32_t> levels(vertices, -1);
  std::vector<Id> parents(vertices, std::numeric_limits<Id>::max());
  std::queue<int> queue({static_cast<int>(source)});
  levels[source] = 0;
  parents[source] = source;
  int64_t examined = 0;
  for (; !queue.empty(); queue.pop()) {
    const int u = queue.front();
    examined += neighbours[u].size();
    for (int v : neighbours[u]) {
      if (levels[v] == -1) queue.push(v), levels[v] = levels[u] + 1;
      if (levels[v] == levels[u] + 1) parents[v] = std::min<Id>(parents[v], u);
    }
  }

  const ListArrays<Graph> out(neighbours, random() % 40, 0, random()),
      before(transposed(neighbours), random() % 40, random() % 4, random());
  const Graph graph(out.words), incoming(before.words);
  for (const Graph* in : {static_cast<const Graph*>(nullptr), &incoming}) {
    std::vector<int32_t> found_levels(vertices, -1);
    std::vector<Id> found_parents(vertices, graph::BfsState<Id>::kUnset);
    graph::BfsParams p{};
    p.parents = found_parents.data();
    p.levels = found_levels.data();
    std::vector<char> scratch = scratch_of<graph::BfsState<Id>>(p, vertices, graph.num_edges);
    const graph::BfsState<Id> state(p, vertices, graph.num_edges);
    Lanes::run([&] {
      LaneTeam team;
      bfs(team, graph, in, state, source);
    });
    const graph::FrontierControl& control = *state.frontier.control;
    if (found_levels != levels || found_parents != parents || control.explored != examined ||
        control.bad != graph::FrontierControl::kNone)
      return false;
    if (in != nullptr)
      for (int64_t depth = 0; depth < control.depth; ++depth) pulled += state.frontier.record(depth).pulled;
  }
  return true;
}

template <class Edge>
using Plain = graph::Csr<Edge>;
template <class Edge>
using Packed = graph::PackedCsr<Edge>;

template <class Graph, class Id>
bool finds(unsigned seed) {
  std::mt19937 random(seed);
  const Adjacency neighbours = random_graph(random);
  return agrees<Graph, Id>(neighbours, random() % neighbours.size(), random);
}

template <class Graph, class Id>
bool finds_hubs(unsigned seed) {
  std::mt19937 random(seed);
  const HubGraph hubs = random_hubs(random, seed);
  return agrees<Graph, Id>(hubs.lists, hubs.start, random);
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(36); ++seed)
    if (!finds<Plain<int32_t>, uint32_t>(seed) || !finds<Plain<int64_t>, uint32_t>(seed) ||
        !finds<Plain<int64_t>, uint64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  for (unsigned seed = 0; seed < test::rounds(18); ++seed)
    if (!finds_hubs<Plain<int32_t>, uint32_t>(seed) ||
        !(seed % 2 == 0 ? finds_hubs<Plain<int64_t>, uint64_t>(seed) : finds_hubs<Packed<int32_t>, uint32_t>(seed))) {
      std::printf("hubs, seed %u\n", seed);
      return 1;
    }
  if (pulled == 0) {
    std::printf("no level was searched bottom-up\n");
    return 1;
  }
}
