#include "graph/cc.hpp"

#include <numeric>
#include <vector>

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void connected_components(const graph::ComponentsParams& p, int id_bytes) {
  with_graph(*p.graph, p.incoming, [&](const auto& graph, const auto* incoming) {
    const graph::ComponentsLayout at(graph.num_vertices, graph.num_edges);
    const auto run = [&](auto* labels) {
      ThreadTeam team;
      const graph::ComponentsState state(labels, p.scratch, at, graph.num_vertices);
      graph::connected_components(team, graph, incoming, state, p.reread != 0);
    };
    id_bytes == 8 ? run(static_cast<uint64_t*>(p.labels)) : run(static_cast<uint32_t*>(p.labels));
  });
}

namespace {

using Broken = Findings<ComponentsRule, ComponentsRule::kConnected>;

void check_labels(int64_t num_vertices, const int64_t* labels, Broken& broken) {
#pragma omp parallel for
  for (int64_t v = 0; v < num_vertices; ++v)
    if (labels[v] < 0 || labels[v] > v || labels[labels[v]] != labels[v]) broken.report(ComponentsRule::kSmallest, v);
}

template <class Edge>
void check_edges(const graph::GraphWords& graph, const int64_t* labels, Broken& broken) {
  const Edge* edges = static_cast<const Edge*>(graph.edges);
#pragma omp parallel for schedule(dynamic, 256)
  for (int64_t u = 0; u < graph.num_vertices; ++u) {
    const graph::Piece list = list_within(graph.offsets, u, graph.num_edges);
    for (int64_t i = list.begin; i < list.end; ++i)
      if (edges[i] < 0 || edges[i] >= graph.num_vertices)
        broken.report(ComponentsRule::kGraph, i);
      else if (labels[edges[i]] != labels[u])
        broken.report(ComponentsRule::kEdge, i);
  }
}

// Sets joined one edge after another, the smaller one below the larger: none of it is the algorithm that is being checked.
template <class Id>
class DisjointSets {
 public:
  explicit DisjointSets(int64_t count) : above_(count), size_(count, 1), num_sets_(count) {
    std::iota(above_.begin(), above_.end(), Id{0});
  }

  Id find(Id v) {
    while (above_[v] != v) v = above_[v] = above_[above_[v]];
    return v;
  }

  void join(Id a, Id b) {
    a = find(a);
    b = find(b);
    if (a == b) return;
    if (size_[a] < size_[b]) std::swap(a, b);
    above_[b] = a;
    size_[a] += size_[b];
    --num_sets_;
  }

  int64_t num_sets() const { return num_sets_; }

 private:
  std::vector<Id> above_, size_;
  int64_t num_sets_;
};

// Labels that agree along every edge are at most as many as there are components; if they are as many, each is one.
template <class Edge, class Id>
void check_connected(const graph::GraphWords& graph, const int64_t* labels, Broken& broken) {
  const Edge* edges = static_cast<const Edge*>(graph.edges);
  int64_t num_labels = 0;
  for (int64_t v = 0; v < graph.num_vertices; ++v) num_labels += labels[v] == v;
  DisjointSets<Id> sets(graph.num_vertices);
  for (int64_t u = 0; u < graph.num_vertices && sets.num_sets() != num_labels; ++u) {
    const graph::Piece list = list_within(graph.offsets, u, graph.num_edges);
    for (int64_t i = list.begin; i < list.end; ++i)
      if (const int64_t v = edges[i]; v >= 0 && v < graph.num_vertices) sets.join(u, v);
  }
  if (sets.num_sets() == num_labels) return;
  int64_t v = 0;
  while (v < graph.num_vertices - 1 && sets.find(v) == sets.find(labels[v])) ++v;
  broken.report(ComponentsRule::kConnected, v);
}

}  // namespace

Finding verify_components(const graph::GraphWords& graph, const int64_t* labels) {
  Broken broken;
  const bool wide = graph.edge_bytes == 8;
  check_labels(graph.num_vertices, labels, broken);
  if (!broken.any()) wide ? check_edges<int64_t>(graph, labels, broken) : check_edges<int32_t>(graph, labels, broken);
  if (!broken.any())
    wide ? check_connected<int64_t, uint64_t>(graph, labels, broken)
         : check_connected<int32_t, uint32_t>(graph, labels, broken);
  return broken.first();
}

}  // namespace hinterland::native
