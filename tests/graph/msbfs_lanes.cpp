// Multi-source search as a warp of a GPU does it, against queues: random graphs with hubs, gaps, empty lists and edge arrays that
// begin anywhere within a cache line. Prints the first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <queue>
#include <random>
#include <vector>

#include "hinterland/graph/msbfs.hpp"
#include "lane_team.hpp"
#include "offset_widths.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

int64_t pulled = 0;  // levels that were searched bottom-up
int64_t both = 0;    // and of these, those that were pushed for some sources

using Adjacency = std::vector<std::vector<int>>;

Adjacency random_graph(std::mt19937& random) {
  const int vertices = 1 + random() % 300, kind = random() % 4;
  Adjacency neighbours(vertices);
  const auto any = [&] { return static_cast<int>(random() % vertices); };
  const auto add = [&](int edges, auto source) {
    for (int i = 0; i < edges; ++i) neighbours[source()].push_back(any());
  };
  if (kind == 0) add(vertices, any);                                            // many parts that do not meet
  if (kind == 1) add(8 * vertices, any), add(6000, [&] { return any() % 3; });  // hubs of several tasks
  if (kind == 2) add(20 * vertices, [&] { return any() / 7 * 7; });             // gaps between active vertices
  if (kind == 3) add(10 * vertices, any);                                       // dense groups
  return neighbours;
}

// Arrays of a graph, its edges after some that belong to nobody, and the first `heads_per_vertex` of each list once more.
template <class Edge>
struct Arrays {
  HeldOffsets held;
  std::vector<Edge> edges, heads;
  graph::GraphWords words{};

  Arrays(const Adjacency& lists, int64_t padding, int64_t heads_per_vertex, bool narrow)
      : edges(padding, -1), heads(heads_per_vertex * lists.size(), -1) {
    std::vector<int64_t> offsets{0};
    for (size_t v = 0; v < lists.size(); ++v) {
      for (size_t j = 0; j < lists[v].size() && static_cast<int64_t>(j) < heads_per_vertex; ++j)
        heads[j * lists.size() + v] = lists[v][j];
      edges.insert(edges.end(), lists[v].begin(), lists[v].end());
      offsets.push_back(edges.size() - padding);
    }
    held = HeldOffsets(offsets, narrow);
    words.num_vertices = lists.size();
    words.num_edges = offsets.back();
    words.offsets = held.view();
    words.edges.home = edges.data() + padding;
    words.heads = heads.data();
    words.heads_per_vertex = heads_per_vertex;
  }
};

template <class Edge, class Mask>
bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  const Adjacency neighbours = random_graph(random);
  const int64_t vertices = neighbours.size(), count = 1 + random() % (8 * sizeof(Mask));
  Adjacency before(vertices);
  for (int64_t u = 0; u < vertices; ++u)
    for (int v : neighbours[u]) before[v].push_back(u);
  const Arrays<Edge> out(neighbours, random() % 40, 0, seed % 2), in(before, random() % 40, random() % 4, seed / 2 % 2);
  const graph::Csr<Edge> graph(out.words), incoming(in.words);

  std::vector<int64_t> sources(count), reached(count), sums(count), farthest(count);
  std::vector<int32_t> levels(count * vertices, -1);
  for (int64_t i = 0; i < count; ++i) {
    int32_t* level = levels.data() + i * vertices;
    sources[i] = random() % vertices;
    std::queue<int> queue({static_cast<int>(sources[i])});
    for (level[sources[i]] = 0; !queue.empty(); queue.pop()) {
      const int u = queue.front();
      ++reached[i], sums[i] += level[u], farthest[i] = level[u];
      for (int v : neighbours[u])
        if (level[v] == -1) queue.push(v), level[v] = level[u] + 1;
    }
  }

  for (const graph::Csr<Edge>* in : {static_cast<const graph::Csr<Edge>*>(nullptr), &incoming}) {
    std::vector<int32_t> found(count * vertices, -1);
    graph::MsBfsParams p{};
    p.levels = found.data();
    std::vector<char> scratch = scratch_of<graph::MsBfsState<Mask>>(p, vertices, graph.num_edges);
    const graph::MsBfsState<Mask> state(p, vertices, graph.num_edges);
    Lanes::run([&] {
      LaneTeam team;
      msbfs(team, graph, in, state, sources.data(), count);
    });
    const graph::MsBfsControl& control = *state.control;
    const graph::FrontierControl& common = *state.frontier.control;
    if (found != levels || common.bad != graph::FrontierControl::kNone ||
        !std::equal(reached.begin(), reached.end(), control.reached) ||
        !std::equal(sums.begin(), sums.end(), control.distance_sum) ||
        !std::equal(farthest.begin(), farthest.end(), control.eccentricity))
      return false;
    if (in != nullptr)
      for (int64_t depth = 0; depth < common.depth; ++depth) {
        const graph::StepRecord& record = state.frontier.record(depth);
        pulled += record.pulled;
        both += record.pulled != 0 && record.tasks != 0;
      }
  }
  return true;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < Lanes::rounds(40); ++seed)
    if (!agrees<int32_t, uint32_t>(seed) || !agrees<int32_t, uint64_t>(seed) || !agrees<int64_t, uint64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  if (pulled == both || both == 0) {
    std::printf("%lld levels were searched bottom-up, %lld of them also top-down\n", static_cast<long long>(pulled),
                static_cast<long long>(both));
    return 1;
  }
}
