// The rules of Graph500 for a breadth-first search tree (graph500.org, specification, "validation"), checked in one pass over
// the vertices and one over the edges. Nothing is traversed again: a result that obeys the rules is a shortest-path tree.
#include <vector>

#include "graph/bfs.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/frontier.hpp"

namespace hinterland::native {

namespace {

using Findings = FirstBroken<BfsRule, BfsRule::kTreeEdge>;

// Levels alone: each row of levels, which may come without parents.
void check_levels(int64_t num_vertices, int64_t source, const int32_t* levels, Findings& found) {
  if (levels[source] != 0) found.report(BfsRule::kSource, source);
#pragma omp parallel for schedule(static)
  for (int64_t v = 0; v < num_vertices; ++v)
    if (v != source && (levels[v] < -1 || levels[v] == 0)) found.report(BfsRule::kReached, v);
}

void check_vertices(int64_t num_vertices, int64_t source, const int32_t* levels, const int64_t* parents, Findings& found) {
  if (levels[source] != 0 || parents[source] != source) found.report(BfsRule::kSource, source);
#pragma omp parallel for schedule(static)
  for (int64_t v = 0; v < num_vertices; ++v) {
    if (v == source) continue;
    const int64_t parent = parents[v];
    if (parent < -1 || parent >= num_vertices || levels[v] < -1 || (parent == -1) != (levels[v] == -1))
      found.report(BfsRule::kReached, v);
    else if (parent != -1 && (levels[parent] == -1 || levels[v] != levels[parent] + 1))
      found.report(BfsRule::kTreeLevel, v);
  }
}

template <class Graph>
void check_edges(const Graph& graph, const int32_t* levels, const int64_t* parents, Findings& found) {
  std::vector<uint32_t> has_tree_edge(ceil_div<int64_t>(graph.num_vertices, graph::kGroup));
#pragma omp parallel for schedule(dynamic, 256)
  for (int64_t u = 0; u < graph.num_vertices; ++u) {
    if (levels[u] == -1) continue;
    for_each_entry(graph, u, [&](int64_t i, int64_t v) {
      if (!graph.has(v)) {
        found.report(BfsRule::kGraph, i);
      } else if (levels[v] == -1) {
        found.report(BfsRule::kClosed, i);
      } else if (levels[v] > levels[u] + 1) {
        found.report(BfsRule::kEdgeLevel, i);
      } else if (parents != nullptr ? parents[v] == u : levels[v] == levels[u] + 1) {
        uint32_t& word = has_tree_edge[graph::group_of(v)];
        if (!(atomic_load(word) & graph::bit_of(v))) atomic_or(word, graph::bit_of(v));
      }
    });
  }
#pragma omp parallel for schedule(static)
  for (int64_t v = 0; v < graph.num_vertices; ++v)
    if (levels[v] > 0 && !(has_tree_edge[graph::group_of(v)] & graph::bit_of(v))) found.report(BfsRule::kTreeEdge, v);
}

}  // namespace

Finding verify_bfs(const graph::GraphWords& graph, int64_t source, const int32_t* levels, const int64_t* parents) {
  Findings found;
  if (parents != nullptr)
    check_vertices(graph.num_vertices, source, levels, parents, found);
  else
    check_levels(graph.num_vertices, source, levels, found);
  if (found.any()) return found.finding();  // what follows indexes by levels and parents, and counts on them
  with_plain_graph(graph, [&](const auto& lists) { check_edges(lists, levels, parents, found); });
  return found.finding();
}

}  // namespace hinterland::native
