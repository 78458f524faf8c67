// Connected components as a warp of a GPU finds them, against labels that spread along edges until nothing changes. Prints the
// first seed that goes wrong.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

#include "hinterland/graph/cc.hpp"
#include "lane_team.hpp"
#include "offset_widths.hpp"
#include "scratch.hpp"

using namespace hinterland;

namespace {

// Lists of neighbours as arrays of a graph; edges begin anywhere within a cache line.
template <class Edge>
struct Arrays {
  HeldOffsets held;
  std::vector<Edge> edges, heads;
  graph::GraphWords words{};

  Arrays(const std::vector<std::vector<int>>& lists, int64_t padding, int64_t heads_per_vertex, bool narrow)
      : edges(padding, -1) {
    std::vector<int64_t> offsets{0};
    const int64_t vertices = lists.size();
    heads.assign(heads_per_vertex * vertices, -1);
    for (int64_t v = 0; v < vertices; ++v) {
      for (int64_t j = 0; j < std::min<int64_t>(heads_per_vertex, lists[v].size()); ++j) heads[j * vertices + v] = lists[v][j];
      edges.insert(edges.end(), lists[v].begin(), lists[v].end());
      offsets.push_back(edges.size() - padding);
    }
    held = HeldOffsets(offsets, narrow);
    words.num_vertices = vertices;
    words.num_edges = offsets.back();
    words.offsets = held.view();
    words.edges.home = edges.data() + padding;
    words.heads = heads.data();
    words.heads_per_vertex = heads_per_vertex;
  }
};

template <class Edge, class Id>
bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  const int vertices = 1 + random() % 400, kind = random() % 4;
  const bool symmetric = random() % 2;
  std::vector<std::vector<int>> out(vertices), in(vertices);
  const auto add = [&](int u, int v) {
    out[u].push_back(v);
    if (symmetric) out[v].push_back(u);
  };
  if (kind == 0)
    for (int v = 1; v < vertices; ++v) add(v, v - 1);
  const int edges = kind == 1 ? 5000 : kind == 2 ? vertices / 2 : vertices;
  for (int i = 0; i < edges; ++i) add(random() % (kind == 1 ? std::min(vertices, 3) : vertices), random() % vertices);
  for (int u = 0; u < vertices; ++u)
    for (int v : out[u]) in[v].push_back(u);

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

  const Arrays<Edge> forward(out, random() % 40, random() % 4, seed % 2), backward(in, random() % 40, 0, seed / 2 % 2);
  const graph::Csr<Edge> graph(forward.words), incoming(backward.words);
  for (const graph::Csr<Edge>* other : {static_cast<const graph::Csr<Edge>*>(nullptr), &incoming, symmetric ? &graph : nullptr})
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
  for (unsigned seed = 0; seed < Lanes::rounds(12); ++seed)
    if (!agrees<int32_t, uint32_t>(seed) || !agrees<int64_t, uint32_t>(seed) || !agrees<int64_t, uint64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
