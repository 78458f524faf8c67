// Harmonic centrality as a warp of a GPU finds it, against queues: random graphs with hubs, plain and packed, from several
// batches of sources. Prints the first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <queue>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/harmonic.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

// How many of the sources lie at each distance from each vertex: [vertices][distance].
std::vector<std::vector<int>> distances(const Adjacency& neighbours, const std::vector<int64_t>& sources) {
  std::vector<std::vector<int>> found(neighbours.size());
  for (const int64_t source : sources) {
    std::vector<int> level(neighbours.size(), -1);
    std::queue<int> queue({static_cast<int>(source)});
    for (level[source] = 0; !queue.empty(); queue.pop()) {
      const int u = queue.front();
      for (int v : neighbours[u])
        if (level[v] == -1) queue.push(v), level[v] = level[u] + 1;
    }
    for (size_t v = 0; v < level.size(); ++v) {
      if (level[v] < 0) continue;
      found[v].resize(std::max<size_t>(found[v].size(), level[v] + 1));
      ++found[v][level[v]];
    }
  }
  return found;
}

template <class Graph>
bool finds(unsigned seed) {
  std::mt19937 random(seed);
  const HubGraph hubs = random_hubs(random, seed);
  const int64_t vertices = hubs.lists.size();
  const ListArrays<Graph> out(hubs.lists, random() % 40, 0, random()),
      in(transposed(hubs.lists), random() % 40, random() % 4, random());
  const Graph graph(out.words), incoming(in.words);
  std::vector<int64_t> batches[2];
  for (std::vector<int64_t>& sources : batches)
    for (int i = 1 + random() % graph::kMostSources; i > 0; --i) sources.push_back(random() % vertices);

  for (const Graph* in : {static_cast<const Graph*>(nullptr), &incoming}) {
    std::vector<double> found(vertices), expected(vertices);
    for (const std::vector<int64_t>& sources : batches) {
      const auto near = distances(hubs.lists, sources);
      for (int64_t v = 0; v < vertices; ++v)
        for (size_t d = 1; d < near[v].size(); ++d) expected[v] += near[v][d] / static_cast<double>(d);
      graph::HarmonicParams p{};
      p.scores = found.data();
      std::vector<char> scratch = scratch_of<graph::HarmonicState>(p, vertices, graph.num_edges);
      const graph::HarmonicState state(p, vertices, graph.num_edges);
      Lanes::run([&] {
        LaneTeam team;
        harmonic(team, graph, in, state, sources.data(), static_cast<int64_t>(sources.size()));
      });
      if (state.frontier.control->bad != graph::FrontierControl::kNone) return false;
    }
    if (found != expected) return false;
  }
  return true;
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(12); ++seed)
    if (!finds<graph::Csr<int32_t>>(seed) ||
        !(seed % 2 == 0 ? finds<graph::Csr<int64_t>>(seed) : finds<graph::PackedCsr<int32_t>>(seed))) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
