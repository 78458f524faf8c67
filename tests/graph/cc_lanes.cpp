// Connected components as a warp of a GPU finds them, against labels that spread along edges until nothing changes, also where
// one edge of a list about as long as lists are cut joins two of them. Prints the first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "../rounds.hpp"
#include "hinterland/graph/cc.hpp"
#include "hubs.hpp"
#include "lane_team.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

Adjacency random_graph(std::mt19937& random, bool symmetric) {
  const int vertices = 1 + random() % 400, kind = random() % 4;
  Adjacency out(vertices);
  const auto add = [&](int u, int v) {
    out[u].push_back(v);
    if (symmetric) out[v].push_back(u);
  };
  if (kind == 0)
    for (int v = 1; v < vertices; ++v) add(v, v - 1);
  const int edges = kind == 1 ? 5000 : kind == 2 ? vertices / 2 : vertices;
  for (int i = 0; i < edges; ++i) add(random() % (kind == 1 ? std::min(vertices, 3) : vertices), random() % vertices);
  return out;
}

// Most vertices are joined by the first edges of their lists. A hub outside them has a few neighbours, again and again, and
// among them, once, one of these: the last, or about where a task ends. `turned`: it is in the list of that neighbour alone, so
// that the edge is found in the hub's list of in-neighbours.
Adjacency hub_of_another(std::mt19937& random, bool symmetric, bool turned) {
  const int vertices = 300, few = 3, length = hub_length(random), tasks = length / graph::kTaskEdges;
  const int hub = random() % vertices;
  std::vector<int> others;
  for (int v = 0; v < vertices; ++v)
    if (v != hub) others.push_back(v);
  std::shuffle(others.begin(), others.end(), random);
  Adjacency out(vertices);
  const auto add = [&](int u, int v) {
    out[turned ? v : u].push_back(turned ? u : v);
    if (symmetric) out[turned ? u : v].push_back(turned ? v : u);
  };
  for (int i = few; i < vertices - 1; ++i)  // a ring, both ways
    for (const int step : {1, vertices - 2 - few})
      out[others[i]].push_back(others[few + (i - few + step) % (vertices - 1 - few)]);
  int place = random() % 2 == 0 || tasks == 0 ? length - 1 : (1 + random() % tasks) * graph::kTaskEdges + random() % 3 - 2;
  place = std::clamp(place, 2, length - 1);
  for (int i = 0; i < length; ++i) add(hub, others[i == place ? few + random() % 100 : random() % few]);
  return out;
}

template <class Graph, class Id>
bool agrees(const Adjacency& out, bool symmetric, std::mt19937& random) {
  const int vertices = out.size();
  std::vector<Id> labels(vertices);
  std::iota(labels.begin(), labels.end(), 0);
  for (bool changed = true; changed;) {
    changed = false;
    for (int u = 0; u < vertices; ++u)
      for (int v : out[u])
        if (labels[u] != labels[v]) labels[u] = labels[v] = std::min(labels[u], labels[v]), changed = true;
  }
  int64_t count = 0;
  for (int v = 0; v < vertices; ++v) count += labels[v] == static_cast<Id>(v);

  const ListArrays<Graph> forward(out, random() % 40, random() % 4, random()),
      backward(transposed(out), random() % 40, 0, random());
  const Graph graph(forward.words), incoming(backward.words);
  for (const Graph* other : {static_cast<const Graph*>(nullptr), &incoming, symmetric ? &graph : nullptr})
    for (const bool reread : {false, true}) {
      std::vector<Id> found(vertices, 12345);
      graph::ComponentsParams p{};
      p.labels = found.data();
      std::vector<char> scratch = scratch_of<graph::ComponentsState<Id>>(p, vertices, graph.num_edges);
      const graph::ComponentsState<Id> state(p, vertices, graph.num_edges);
      Lanes::run([&] {
        LaneTeam team;
        connected_components(team, graph, other, state, reread);
      });
      if (found != labels || state.control->count != count || state.frontier.control->bad != graph::FrontierControl::kNone)
        return false;
    }
  return true;
}

template <class Graph, class Id>
bool finds(unsigned seed) {
  std::mt19937 random(seed);
  const bool symmetric = random() % 2;
  const Adjacency out = random_graph(random, symmetric);
  return agrees<Graph, Id>(out, symmetric, random);
}

template <class Graph, class Id>
bool finds_hub(unsigned seed, bool ascends) {
  std::mt19937 random(seed);
  const bool symmetric = seed % 3 == 0;
  Adjacency out = hub_of_another(random, symmetric, seed % 3 == 1);
  if (ascends) hubs::sort_lists(out);
  return agrees<Graph, Id>(out, symmetric, random);
}

// Linking the end of a long way with a smaller vertex halves that way, and leaves every vertex a way to the root.
bool halves_ways() {
  constexpr int64_t kLength = 1000;
  std::vector<uint32_t> labels(kLength + 1);
  for (int64_t v = 1; v <= kLength; ++v) labels[v] = v == 1 ? 1 : v - 1;
  graph::ComponentsParams p{};
  p.labels = labels.data();
  const graph::ComponentsState<uint32_t> state(p, kLength + 1, 0);
  const auto steps = [&](uint32_t v) {
    int64_t count = 0;
    for (; labels[v] != v; v = labels[v]) ++count;
    return v == 0 ? count : -1;
  };
  state.link(kLength, 0);
  for (uint32_t v = 0; v <= kLength; ++v)
    if (steps(v) < 0) return false;
  return steps(kLength) <= kLength / 2 + 1;
}

}  // namespace

int main() {
  if (!halves_ways()) {
    std::printf("a way was not halved\n");
    return 1;
  }
  for (unsigned seed = 0; seed < test::rounds(12); ++seed)
    if (!finds<graph::Csr<int32_t>, uint32_t>(seed) || !finds<graph::Csr<int64_t>, uint32_t>(seed) ||
        !finds<graph::Csr<int64_t>, uint64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
  for (unsigned seed = 0; seed < test::rounds(24); ++seed)
    if (!finds_hub<graph::Csr<int32_t>, uint32_t>(seed, false) ||
        !(seed % 2 == 0 ? finds_hub<graph::Csr<int64_t>, uint64_t>(seed, false)
                        : finds_hub<graph::PackedCsr<int32_t>, uint32_t>(seed, true))) {
      std::printf("hubs, seed %u\n", seed);
      return 1;
    }
}
