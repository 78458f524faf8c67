#include "graph/cc.hpp"

#include <limits>
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

constexpr int64_t kNowhere = std::numeric_limits<int64_t>::max();

int64_t first_wrong_label(int64_t num_vertices, const int64_t* labels) {
  int64_t first = kNowhere;
#pragma omp parallel for reduction(min : first)
  for (int64_t v = 0; v < num_vertices; ++v)
    if (labels[v] < 0 || labels[v] > v || labels[labels[v]] != labels[v]) first = min_of(first, v);
  return first;
}

template <class Edge>
ComponentsFinding first_wrong_edge(const graph::GraphWords& graph, const int64_t* labels) {
  const Edge* edges = static_cast<const Edge*>(graph.edges);
  int64_t broken = kNowhere, leaving = kNowhere;
#pragma omp parallel for schedule(dynamic, 256) reduction(min : broken, leaving)
  for (int64_t u = 0; u < graph.num_vertices; ++u) {
    const graph::Piece list = list_within(graph.offsets, u, graph.num_edges);
    for (int64_t i = list.begin; i < list.end; ++i)
      if (edges[i] < 0 || edges[i] >= graph.num_vertices)
        broken = min_of(broken, i);
      else if (labels[edges[i]] != labels[u])
        leaving = min_of(leaving, i);
  }
  if (broken != kNowhere) return {ComponentsRule::kGraph, broken};
  if (leaving != kNowhere) return {ComponentsRule::kEdge, leaving};
  return {ComponentsRule::kNone, 0};
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
ComponentsFinding first_apart(const graph::GraphWords& graph, const int64_t* labels) {
  const Edge* edges = static_cast<const Edge*>(graph.edges);
  int64_t num_labels = 0;
  for (int64_t v = 0; v < graph.num_vertices; ++v) num_labels += labels[v] == v;
  DisjointSets<Id> sets(graph.num_vertices);
  for (int64_t u = 0; u < graph.num_vertices && sets.num_sets() != num_labels; ++u) {
    const graph::Piece list = list_within(graph.offsets, u, graph.num_edges);
    for (int64_t i = list.begin; i < list.end; ++i)
      if (const int64_t v = edges[i]; v >= 0 && v < graph.num_vertices) sets.join(u, v);
  }
  if (sets.num_sets() == num_labels) return {ComponentsRule::kNone, 0};
  int64_t v = 0;
  while (v < graph.num_vertices - 1 && sets.find(v) == sets.find(labels[v])) ++v;
  return {ComponentsRule::kConnected, v};
}

}  // namespace

ComponentsFinding verify_components(const graph::GraphWords& graph, const int64_t* labels) {
  const int64_t wrong = first_wrong_label(graph.num_vertices, labels);
  if (wrong != kNowhere) return {ComponentsRule::kSmallest, wrong};
  const bool wide = graph.edge_bytes == 8;
  const ComponentsFinding edge = wide ? first_wrong_edge<int64_t>(graph, labels) : first_wrong_edge<int32_t>(graph, labels);
  if (edge.rule != ComponentsRule::kNone) return edge;
  return wide ? first_apart<int64_t, uint64_t>(graph, labels) : first_apart<int32_t, uint32_t>(graph, labels);
}

}  // namespace hinterland::native
