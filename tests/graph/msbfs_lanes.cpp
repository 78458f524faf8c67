// Multi-source search as a warp of a GPU does it, against queues: random graphs with hubs, gaps, empty lists and edge arrays
// that begin anywhere within a cache line, and lists about as long as they are cut, plain and packed. Prints the first seed
// that goes wrong.
#include <algorithm>
#include <cstdio>
#include <queue>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/msbfs.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

int64_t pulled = 0;  // levels that were searched bottom-up
int64_t both = 0;    // and of these, those that were pushed for some sources

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

template <class Graph, class Mask>
bool agrees(const Adjacency& neighbours, int start, std::mt19937& random) {
  const int64_t vertices = neighbours.size(), count = 1 + random() % (start < 0 ? 8 * sizeof(Mask) : 8);
  const ListArrays<Graph> out(neighbours, random() % 40, 0, random()),
      in(transposed(neighbours), random() % 40, random() % 4, random());
  const Graph graph(out.words), incoming(in.words);

  std::vector<int64_t> sources(count), reached(count), sums(count), farthest(count);
  std::vector<int32_t> levels(count * vertices, -1);
  for (int64_t i = 0; i < count; ++i) {
    int32_t* level = levels.data() + i * vertices;
    const auto& near = neighbours[std::max(start, 0)];
    sources[i] = start < 0 ? random() % vertices : i == 0 ? start : near[random() % near.size()];
    std::queue<int> queue({static_cast<int>(sources[i])});
    for (level[sources[i]] = 0; !queue.empty(); queue.pop()) {
      const int u = queue.front();
      ++reached[i], sums[i] += level[u], farthest[i] = level[u];
      for (int v : neighbours[u])
        if (level[v] == -1) queue.push(v), level[v] = level[u] + 1;
    }
  }

  for (const Graph* in : {static_cast<const Graph*>(nullptr), &incoming}) {
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

template <class Graph, class Mask>
bool finds(unsigned seed) {
  std::mt19937 random(seed);
  const Adjacency neighbours = random_graph(random);
  return agrees<Graph, Mask>(neighbours, -1, random);
}

template <class Graph, class Mask>
bool finds_hubs(unsigned seed) {
  std::mt19937 random(seed);
  const HubGraph hubs = random_hubs(random, seed);
  return agrees<Graph, Mask>(hubs.lists, hubs.start, random);
}

}  // namespace

int main() {
  using Narrow = graph::Csr<int32_t>;
  using Wide = graph::Csr<int64_t>;
  using Packed = graph::PackedCsr<int32_t>;
  for (unsigned seed = 0; seed < test::rounds(40); ++seed)
    if (!finds<Narrow, uint32_t>(seed) || !finds<Narrow, uint64_t>(seed) || !finds<Wide, uint64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  for (unsigned seed = 0; seed < test::rounds(12); ++seed)
    if (!finds_hubs<Narrow, uint32_t>(seed) ||
        !(seed % 2 == 0 ? finds_hubs<Wide, uint64_t>(seed) : finds_hubs<Packed, uint64_t>(seed))) {
      std::printf("hubs, seed %u\n", seed);
      return 1;
    }
  if (pulled == both || both == 0) {
    std::printf("%lld levels were searched bottom-up, %lld of them also top-down\n", static_cast<long long>(pulled),
                static_cast<long long>(both));
    return 1;
  }
}
