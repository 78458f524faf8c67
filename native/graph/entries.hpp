// Going through the lists of a graph, of any form and wherever they lie: for those who check results, survey lists, or turn
// them round.
#pragma once

#include <algorithm>
#include <cstdint>

#include "graph/row_loops.hpp"
#include "graph/views.hpp"
#include "hinterland/graph/ahead.hpp"

namespace hinterland::native {

// use(i, neighbour) for each entry i of the list of u, none if the list does not lie among the edges.
template <class Edge, class Weight, class Sources, class Use>
void for_each_entry(const graph::Csr<Edge, Weight, Sources>& graph, int64_t u, const Use& use) {
  const graph::Piece list = graph.offsets.list_alone(u);
  if (!list.lies_within(graph.num_edges)) return;
  auto edges = graph.edges.reader(list.begin, list.end);
  for (int64_t i = list.begin; i < list.end; ++i) use(i, int64_t{edges.read_alone(i)});
}

// What a packed list that is damaged does not have is -1.
template <class Edge, class Weight, class Sources, class Use>
void for_each_entry(const graph::PackedCsr<Edge, Weight, Sources>& graph, int64_t u, const Use& use) {
  const graph::Piece list = graph.offsets.list_alone(u);
  if (!list.lies_within(graph.num_edges)) return;
  const auto packed = graph::PackedBounds::alone(graph, u);
  const graph::PackedShape shape(graph.num_vertices, list.length());
  typename Sources::Meter meter;
  graph::PackedFinder<graph::PackedCsr<Edge, Weight, Sources>> find(graph, meter);
  for (int64_t i = list.begin; i < list.end; ++i) use(i, find(shape, packed, i - list.begin, true));
}

// The offsets of a graph as those of an array.
template <class Graph>
struct OffsetsOf {
  const Graph& graph;

  int64_t operator[](int64_t at) const { return graph.offsets.read_alone(at); }
};

// Begins to read the lists of vertices [begin, end), as many of them as a thread may have under way.
template <class Graph>
void ask_for_lists([[maybe_unused]] const Graph& graph, [[maybe_unused]] int64_t begin, [[maybe_unused]] int64_t end) {
  if constexpr (graph::kReadsAhead<Graph>) {
    const int64_t most = graph::most_ahead(graph);
    for (int64_t u = begin, begun = 0; u < end && begun < most; ++u)
      begun += graph::ask_for_list(graph, u, 0, graph::kTaskEdges);
  }
}

// visit(u) for every vertex, by all threads, each of which takes vertices that follow each other and goes through their lists.
template <class Graph, class Visit>
void for_each_vertex(const Graph& graph, const Visit& visit) {
  for_each_piece(OffsetsOf<Graph>{graph}, graph.num_vertices, graph.num_edges, [&](int64_t begin, int64_t end) {
    ask_for_lists(graph, begin, end);
    for (int64_t u = begin; u < end; ++u) visit(u);
  });
}

}  // namespace hinterland::native
