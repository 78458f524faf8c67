// Betweenness centrality as a warp of a GPU computes it, against Brandes' algorithm with a queue and a stack: random graphs
// with hubs, parallel edges, and edge arrays that begin anywhere within a cache line, and lists about as long as they are cut,
// plain and packed. Prints the first seed that goes wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/bc.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

Adjacency random_graph(std::mt19937& random) {
  const int kind = random() % 4, vertices = 1 + random() % (kind == 3 ? 80 : 300);
  Adjacency neighbours(vertices);
  const auto any = [&] { return static_cast<int>(random() % vertices); };
  const auto add = [&](int edges, auto source) {
    for (int i = 0; i < edges; ++i) neighbours[source()].push_back(any());
  };
  if (kind == 0) add(2 * vertices, any);                                        // many levels
  if (kind == 1) add(4 * vertices, any), add(6000, [&] { return any() % 3; });  // hubs of several tasks
  if (kind == 2) add(6 * vertices, [&] { return any() / 7 * 7; });              // gaps between active vertices
  if (kind == 3)                                                                // a level for each vertex
    for (int v = 0; v + 1 < vertices; ++v) neighbours[v] = {v + 1, v};
  return neighbours;
}

// What `source` adds to the scores.
std::vector<double> brandes(const Adjacency& neighbours, int source) {
  std::vector<int> level(neighbours.size(), -1), order{source};
  std::vector<double> sigma(neighbours.size()), delta(neighbours.size());
  level[source] = 0, sigma[source] = 1;
  for (size_t i = 0; i < order.size(); ++i)
    for (int v : neighbours[order[i]]) {
      if (level[v] == -1) level[v] = level[order[i]] + 1, order.push_back(v);
      if (level[v] == level[order[i]] + 1) sigma[v] += sigma[order[i]];
    }
  for (size_t i = order.size(); i-- > 0;)
    for (int v : neighbours[order[i]])
      if (level[v] == level[order[i]] + 1) delta[order[i]] += sigma[order[i]] / sigma[v] * (1 + delta[v]);
  delta[source] = 0;
  return delta;
}

template <class Graph>
bool agrees(const Adjacency& neighbours, int start, std::mt19937& random) {
  const int64_t vertices = neighbours.size();
  const int64_t history_size = random() % 2 == 0 ? 2 * vertices + 2 : random() % (vertices + 1);  // room for all levels, or not
  const ListArrays<Graph> held(neighbours, random() % 40, 0, random());
  const Graph graph(held.words);

  std::vector<int32_t> levels(vertices, -1);
  std::vector<double> sigma(vertices), scores(vertices), expected(vertices);
  for (int turn = 0; turn < 2; ++turn) {
    const int source = turn == 0 && start >= 0 ? start : random() % vertices;
    const std::vector<double> delta = brandes(neighbours, source);
    graph::BcParams p{};
    p.levels = levels.data();
    p.sigma = sigma.data();
    p.scores = scores.data();
    p.history_size = history_size;
    std::vector<char> scratch = scratch_of<graph::BcState>(p, vertices, graph.num_edges);
    const graph::BcState state(p, vertices, graph.num_edges);
    Lanes::run([&] {
      LaneTeam team;
      betweenness(team, graph, state, source, false);
    });
    if (state.frontier.control->bad != graph::FrontierControl::kNone || *state.overflow != 0) return false;
    for (int64_t v = 0; v < vertices; ++v) {
      expected[v] += delta[v];
      if (!(std::abs(scores[v] - expected[v]) <= 1e-9 * (1 + expected[v]))) return false;
    }
    if (std::count(levels.begin(), levels.end(), -1) != vertices || std::count(sigma.begin(), sigma.end(), 0.0) != vertices)
      return false;
  }
  return true;
}

template <class Graph>
bool finds(unsigned seed) {
  std::mt19937 random(seed);
  const Adjacency neighbours = random_graph(random);
  return agrees<Graph>(neighbours, -1, random);
}

template <class Graph>
bool finds_hubs(unsigned seed) {
  std::mt19937 random(seed);
  const HubGraph hubs = seed % 2 == 0 ? chain_of_hubs(random, 1 + random() % 2, 2) : hubs_in_a_crowd(random, 2, 150);
  return agrees<Graph>(hubs.lists, hubs.start, random);
}

}  // namespace

int main() {
  for (unsigned seed = 0; seed < test::rounds(24); ++seed)
    if (!finds<graph::Csr<int32_t>>(seed) || !finds<graph::Csr<int64_t>>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  for (unsigned seed = 0; seed < test::rounds(8); ++seed)
    if (!finds_hubs<graph::Csr<int32_t>>(seed) || !finds_hubs<graph::Csr<int64_t>>(seed) ||
        !finds_hubs<graph::PackedCsr<int32_t>>(seed)) {
      std::printf("hubs, seed %u\n", seed);
      return 1;
    }
}
