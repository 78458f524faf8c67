// Visiting edges: how a warp reads neighbour lists, whatever form they have, and hands them to an algorithm.
//
// A graph type G is one that lists_of(), visit_chunks(), nth_neighbor() and look_through() are overloaded for. Here they are for
// plain lists (Csr).
#pragma once

#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/frontier.hpp"

namespace hinterland::graph {

inline constexpr int kInFlight = 4;  // chunks that a warp requests before it looks at the first

// What a lane sees of kInFlight chunks: edges from[k] -> to[k], where from[k] is not -1. An algorithm goes over k once
// for each memory access, so that a warp waits once for several.
template <class Edge, class Weight>
struct EdgeBatch {
  static constexpr int kSize = kInFlight;

  int64_t from[kSize];
  Edge to[kSize];
  Weight weight[kSize];
};

// The lists of the active lanes' vertices. All lanes call it together.
template <class Edge, class Weight>
HINTERLAND_FN Lists lists_of(const Csr<Edge, Weight>& graph, int64_t vertex, bool active, StepCounts& counts) {
  const ListBounds list(graph, vertex, active, counts);
  Lists lists(graph.edges, list.begin, list.end, active);
  if constexpr (Csr<Edge, Weight>::kWeighted) lists.bytes += Lists(graph.weights, list.begin, list.end, active).bytes;
  return lists;
}

// Visits chunks [from, to) of the lists of the lanes' vertices: visitor(batch) is called by all lanes together.
template <class Edge, class Weight, class Visitor>
HINTERLAND_FN void visit_chunks(const Csr<Edge, Weight>& graph, const Lists& lists, int64_t vertex, int64_t from, int64_t to,
                                Visitor& visitor, StepCounts& counts) {
  using Graph = Csr<Edge, Weight>;
  if (from == 0) counts.bytes += lists.bytes;  // who begins the lists counts for those that go on
  const auto check_and_visit = [&](EdgeBatch<Edge, Weight>& batch) {
    for (int k = 0; k < kInFlight; ++k)
      if (batch.from[k] >= 0 && !graph.has(batch.to[k])) {
        counts.bad = min_of(counts.bad, batch.from[k]);
        batch.from[k] = -1;
      }
    visitor(batch);
  };
  if constexpr (Warp::kWidth == 1) {  // one list, whose elements lie one after the other
    const auto visit_next = [&](int64_t i, int count) {
      EdgeBatch<Edge, Weight> batch;
      for (int k = 0; k < kInFlight; ++k) {
        const int64_t at = i + min_of(k, count - 1);
        batch.from[k] = k < count ? vertex : -1;
        batch.to[k] = graph.edges.read(at);
        if constexpr (Graph::kWeighted) batch.weight[k] = graph.weights.read(at);
      }
      check_and_visit(batch);
    };
    int64_t i = lists.begin + from;
    const int64_t end = lists.begin + to;
    for (; i + kInFlight <= end; i += kInFlight) visit_next(i, kInFlight);
    if (i < end) visit_next(i, static_cast<int>(end - i));
    return;
  }
  const Window window(lists, from, to);
  const int32_t length = static_cast<int32_t>(to - from) * Warp::kWidth;
  for (int32_t place = Warp::lane(); place - Warp::lane() < length; place += kInFlight * Warp::kWidth) {
    EdgeBatch<Edge, Weight> batch;
    for (int k = 0; k < kInFlight; ++k) {
      const Window::Element element = window.at(place + k * Warp::kWidth);
      const int64_t owner = Warp::broadcast(vertex, element.owner);
      batch.from[k] = element.valid ? owner : -1;
      batch.to[k] = 0;
      if (!element.valid) continue;
      batch.to[k] = graph.edges.read(element.index);
      if constexpr (Graph::kWeighted) batch.weight[k] = graph.weights.read(element.index);
      if (graph.edges.is_hot(element.index)) counts.cached += sizeof(Edge) + (Graph::kWeighted ? sizeof(Weight) : 0);
    }
    check_and_visit(batch);
  }
}

// The j-th neighbour of `vertex`, or -1 if it has no more than j. Each lane asks for a vertex of its own, or for none; all call
// it together.
template <class Edge, class Weight>
HINTERLAND_FN int64_t nth_neighbor(const Csr<Edge, Weight>& graph, int64_t vertex, int64_t j, bool active, StepCounts& counts) {
  int64_t found = -1;
  int64_t sector = -1;  // of the edge array that this lane reads from
  if (j < graph.heads_per_vertex) {
    if (active) found = graph.heads[j * graph.num_vertices + vertex];
  } else {
    const ListBounds list(graph, vertex, active, counts);
    if (list.begin + j < list.end) {
      found = graph.edges.read(list.begin + j);
      if (graph.edges.is_hot(list.begin + j)) counts.cached += sizeof(Edge);
      sector = (list.begin + j) * static_cast<int64_t>(sizeof(Edge)) / kSectorBytes;
      if (!graph.has(found)) counts.bad = min_of(counts.bad, vertex), found = -1;
    }
    const int64_t before = Warp::broadcast(sector, max_of(Warp::lane() - 1, 0));
    if (sector >= 0 && (Warp::lane() == 0 || sector != before)) counts.bytes += kSectorBytes;
  }
  return found;
}

// Looks through the list of one vertex, from position `from` on to the end of the list, `end`: look(to) is called by all lanes
// together, with neighbours to[k], or -1 where there is none, and says (the same in every lane) whether that was enough. A line at
// first, since most searches end there, then two, then several at a time.
template <class Edge, class Weight, class Look>
HINTERLAND_FN void look_through(const Csr<Edge, Weight>& graph, int64_t vertex, int64_t from, int64_t end, const Look& look,
                                StepCounts& counts) {
  int64_t chunk = graph.edges.span(from, end).aligned_begin();
  for (int chunks = 1; chunk < end; chunk += chunks * Warp::kWidth, chunks = min_of(2 * chunks, kInFlight)) {
    int64_t to[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t i = chunk + k * Warp::kWidth + Warp::lane();
      to[k] = -1;
      if (k >= chunks || i < from || i >= end) continue;
      to[k] = graph.edges.read(i);
      if (!graph.has(to[k])) counts.bad = min_of(counts.bad, vertex), to[k] = -1;
      if (graph.edges.is_hot(i)) counts.cached += sizeof(Edge);
    }
    if (Warp::lane() == 0)
      counts.bytes += graph.edges.span(max_of(chunk, from), min_of(chunk + chunks * Warp::kWidth, end)).sector_bytes();
    if (look(to)) return;
  }
}

// The first neighbour u with test(u) at or after position `from` of the list that ends before `end`, or -1.
template <class Graph, class Test>
HINTERLAND_FN int64_t find_neighbor(const Graph& graph, int64_t vertex, int64_t from, int64_t end, const Test& test,
                                    StepCounts& counts) {
  int64_t found = -1;
  const auto look = [&](const int64_t (&to)[kInFlight]) {
    for (int k = 0; k < kInFlight; ++k) {
      const uint32_t finders = Warp::ballot(to[k] >= 0 && test(to[k]));
      if (finders == 0) continue;
      found = Warp::broadcast(to[k], stdlib::countr_zero(finders));
      return true;
    }
    return false;
  };
  look_through(graph, vertex, from, end, look, counts);
  return found;
}

// Visits the edges of one task. On the GPU the lists of the group are laid out together; on the CPU, where a warp has one
// lane, one after the other.
template <class Graph, class Visitor>
HINTERLAND_FN void visit(const Graph& graph, const Frontier& frontier, const Task& task, Visitor& visitor, StepCounts& counts) {
  const uint32_t word = frontier.current[task.group];
  int64_t skip = task.first_chunk;  // chunks of the group that other tasks have taken
  int64_t left = kTaskChunks;
  for (int sub = 0; sub < kGroup && left > 0; sub += Warp::kWidth) {
    const bool active = word >> (sub + Warp::lane()) & 1u;
    if (!Warp::any(active)) continue;
    const int64_t vertex = task.group * kGroup + sub + Warp::lane();
    const auto lists = lists_of(graph, vertex, active, counts);
    const int64_t from = min_of(skip, lists.chunks), to = min_of(from + left, lists.chunks);
    visit_chunks(graph, lists, vertex, from, to, visitor, counts);
    skip -= from;
    left -= to - from;
  }
}

}  // namespace hinterland::graph
