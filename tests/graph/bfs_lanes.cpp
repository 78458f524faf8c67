// Breadth-first search as a warp of a GPU does it, against a queue: random graphs with hubs, gaps, empty lists and edge arrays
// that begin anywhere within a cache line. Prints the first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <numeric>
#include <queue>
#include <random>
#include <vector>

#include "hinterland/graph/bfs.hpp"
#include "lane_team.hpp"
#include "offset_widths.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

int64_t pulled = 0;  // levels that were searched bottom-up

using Adjacency = std::vector<std::vector<int>>;

Adjacency random_graph(std::mt19937& random) {
  const int kind = random() % 6;
  const int vertices = kind == 5 ? 2 * graph::kTaskEdges + 2 : kind == 4 ? 600 + random() % 900 : 1 + random() % 300;
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
  if (kind == 5) {                         // a hub of two tasks and a few edges more or less, the only way to its neighbours
    const int hub = any(), length = vertices - random() % 50;
    for (auto& list : neighbours) list = {hub};
    neighbours[hub].resize(length);
    std::iota(neighbours[hub].begin(), neighbours[hub].end(), vertices - length);
  }
  return neighbours;
}

template <class Edge, class Id>
bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  const Adjacency neighbours = random_graph(random);
  const int64_t vertices = neighbours.size(), padding = random() % 40, source = random() % vertices;

  std::vector<int64_t> offsets{0};
  std::vector<Edge> edges(padding, -1);
  for (const auto& list : neighbours) {
    edges.insert(edges.end(), list.begin(), list.end());
    offsets.push_back(edges.size() - padding);
  }

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

  const HeldOffsets held(offsets, seed % 2);
  graph::GraphWords words{};
  words.num_vertices = vertices;
  words.num_edges = offsets.back();
  words.offsets = held.view();
  words.edges.home = edges.data() + padding;
  const graph::Csr<Edge> graph(words);

  // The transposed graph, its lists ascending, with some heads.
  std::vector<std::vector<int>> before(vertices);
  for (int64_t u = 0; u < vertices; ++u)
    for (int v : neighbours[u]) before[v].push_back(u);
  std::vector<int64_t> in_offsets{0};
  std::vector<Edge> in_edges;
  const int64_t heads_per_vertex = random() % 4;
  std::vector<Edge> heads(heads_per_vertex * vertices, -1);
  for (int64_t v = 0; v < vertices; ++v) {
    for (size_t j = 0; j < before[v].size() && static_cast<int64_t>(j) < heads_per_vertex; ++j)
      heads[j * vertices + v] = before[v][j];
    in_edges.insert(in_edges.end(), before[v].begin(), before[v].end());
    in_offsets.push_back(in_edges.size());
  }
  const HeldOffsets in_held(in_offsets, seed / 2 % 2);
  graph::GraphWords in_words = words;
  in_words.offsets = in_held.view();
  in_words.edges.home = in_edges.data();
  in_words.heads = heads.data();
  in_words.heads_per_vertex = heads_per_vertex;
  const graph::Csr<Edge> incoming(in_words);

  for (const graph::Csr<Edge>* in : {static_cast<const graph::Csr<Edge>*>(nullptr), &incoming}) {
    std::vector<int32_t> found_levels(vertices, -1);
    std::vector<Id> found_parents(vertices, graph::BfsState<Id>::kUnset);
    graph::BfsParams p{};
    p.parents = found_parents.data();
    p.levels = found_levels.data();
    std::vector<char> scratch = scratch_of<graph::BfsState<Id>>(p, vertices, offsets.back());
    const graph::BfsState<Id> state(p, vertices, offsets.back());
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

}  // namespace

int main() {
  for (unsigned seed = 0; seed < Lanes::rounds(40); ++seed)
    if (!agrees<int32_t, uint32_t>(seed) || !agrees<int64_t, uint32_t>(seed) || !agrees<int64_t, uint64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  if (pulled == 0) {
    std::printf("no level was searched bottom-up\n");
    return 1;
  }
}
