// Visiting edges: how a warp reads neighbour lists, whatever form they have, and hands them to an algorithm.
//
// A graph type G is one that lists_of(), visit_chunks(), read_one() and look_through() are overloaded for. Here they are for
// plain lists (Csr).
#pragma once

#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/frontier.hpp"

namespace hinterland::graph {

// Chunks that a warp requests before it looks at the first: docs/notes/thresholds.md. A thread's processor looks ahead by
// itself.
inline constexpr int kInFlight = Warp::kWidth == 1 ? 1 : 4;

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
template <class Edge, class Weight, class Sources, class Counts>
HINTERLAND_FN Lists lists_of(const Csr<Edge, Weight, Sources>& graph, int64_t vertex, bool active, Counts& counts) {
  const ListBounds list(graph, vertex, active, counts);
  return {graph.edges, list.begin, list.end, active};
}

// Visits chunks [from, to) of the lists of the lanes' vertices: visitor(batch) is called by all lanes together. A warp of one
// lane gives a visitor that has a `run` all of them at once: visitor.run(graph, vertex, where they lie, counts).
template <class Edge, class Weight, class Sources, class Visitor, class Counts>
HINTERLAND_FN void visit_chunks(const Csr<Edge, Weight, Sources>& graph, const Lists& lists, int64_t vertex, int64_t from,
                                int64_t to, Visitor& visitor, Counts& counts) {
  using Graph = Csr<Edge, Weight, Sources>;
  if constexpr (Warp::kWidth == 1) {  // one list, whose elements lie one after the other
    const int64_t end = lists.begin + to;
    if constexpr (requires { visitor.run(graph, vertex, Piece{}, counts); })
      return visitor.run(graph, vertex, Piece{lists.begin + from, end}, counts);
    auto edges = graph.edges.reader(lists.begin + from, end);
    [[maybe_unused]] auto weights = graph.weights.reader(lists.begin + from, end);
    graph.edges.count_run(lists.begin + from, end, counts.meter);
    if constexpr (Graph::kWeighted) graph.weights.count_run(lists.begin + from, end, counts.meter);
    for (int64_t i = lists.begin + from; i < end; ++i) {
      if (vertex < 0) __builtin_unreachable();  // so that no visitor asks whether the edge is there
      EdgeBatch<Edge, Weight> batch{{vertex}, {edges.read_alone(i)}, {}};
      if constexpr (Graph::kWeighted) batch.weight[0] = weights.read_alone(i);
      if (!graph.has(batch.to[0])) [[unlikely]]
        counts.bad = min_of(counts.bad, vertex);
      else
        visitor(batch);
    }
    return;
  }
  // Edges at[k], as far as they are any: batch.from says whose they are.
  const auto read_and_visit = [&](EdgeBatch<Edge, Weight>& batch, const int64_t (&at)[kInFlight], auto& meter) {
    graph.edges.read(at, batch.to, meter);
    if constexpr (Graph::kWeighted) graph.weights.read(at, batch.weight, meter);
    for (int k = 0; k < kInFlight; ++k)
      if (batch.from[k] >= 0 && !graph.has(batch.to[k])) {
        counts.bad = min_of(counts.bad, batch.from[k]);
        batch.from[k] = -1;
      }
    visitor(batch);
  };
  EdgeBatch<Edge, Weight> batch;
  int64_t at[kInFlight];
  const Window window(lists, from, to);
  const int32_t length = static_cast<int32_t>(to - from) * Warp::kWidth;
  for (int32_t place = Warp::lane(); place - Warp::lane() < length; place += kInFlight * Warp::kWidth) {
    for (int k = 0; k < kInFlight; ++k) {
      const Window::Element element = window.at(place + k * Warp::kWidth);
      const int64_t owner = Warp::broadcast(vertex, element.owner);
      batch.from[k] = element.valid ? owner : -1;
      at[k] = element.valid ? element.index : memory::kNowhere;
    }
    read_and_visit(batch, at, counts.meter);
  }
}

// Neighbour j of the list, for the lanes where it is there.
template <class Edge, class Weight, class Sources, class Counts>
HINTERLAND_FN int64_t read_one(const Csr<Edge, Weight, Sources>& graph, int64_t, const ListBounds& list, int64_t j, bool there,
                               Counts& counts) {
  const int64_t at[] = {there ? list.begin + j : memory::kNowhere};
  counts.meter.begin_run();
  Edge found[1];
  graph.edges.read(at, found, counts.meter);
  return found[0];
}

// The j-th neighbour of `vertex`, or -1 if it has no more than j. Each lane asks for a vertex of its own, or for none; all call
// it together.
template <class Graph, class Counts>
HINTERLAND_FN int64_t nth_neighbor(const Graph& graph, int64_t vertex, int64_t j, bool active, Counts& counts) {
  if (j < graph.prefix_length) return active ? graph.prefix_neighbor(vertex, j) : -1;
  const ListBounds list(graph, vertex, active, counts);
  const bool there = list.begin + j < list.end;
  const int64_t found = read_one(graph, vertex, list, j, there, counts);
  if (!there) return -1;
  if (graph.has(found)) return found;
  counts.bad = min_of(counts.bad, vertex);
  return -1;
}

// Looks through the list of one vertex, from position `from` on to the end of the list, `end`: look(to) is called by all lanes
// together, with neighbours to[k], or -1 where there is none, and says (the same in every lane) whether that was enough. A line
// at first, since most searches end there, then two, then several at a time.
template <class Edge, class Weight, class Sources, class Look, class Counts>
HINTERLAND_FN void look_through(const Csr<Edge, Weight, Sources>& graph, int64_t vertex, int64_t from, int64_t end,
                                const Look& look, Counts& counts) {
  counts.meter.begin_run();
  if constexpr (Warp::kWidth == 1) {
    auto edges = graph.edges.reader(from, end);
    for (int64_t i = from; i < end; ++i) {
      int64_t to[] = {edges.read_alone(i, counts.meter)};
      if (!graph.has(to[0])) [[unlikely]]
        counts.bad = min_of(counts.bad, vertex), to[0] = -1;
      if (look(to)) return;
    }
    return;
  }
  int64_t chunk = graph.edges.span(from, end).first;
  for (int chunks = 1; chunk < end; chunk += chunks * Warp::kWidth, chunks = min_of(2 * chunks, kInFlight)) {
    int64_t at[kInFlight], to[kInFlight];
    Edge found[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t i = chunk + k * Warp::kWidth + Warp::lane();
      at[k] = k < chunks && i >= from && i < end ? i : memory::kNowhere;
    }
    graph.edges.read(at, found, counts.meter);
    for (int k = 0; k < kInFlight; ++k) {
      to[k] = at[k] == memory::kNowhere ? -1 : static_cast<int64_t>(found[k]);
      if (at[k] != memory::kNowhere && !graph.has(to[k])) counts.bad = min_of(counts.bad, vertex), to[k] = -1;
    }
    if (look(to)) return;
  }
}

// Has elements of the list of a vertex read ahead (ahead.hpp).
template <class Edge, class Weight, class Sources>
HINTERLAND_FN int64_t ask_for_edges(const Csr<Edge, Weight, Sources>& graph, int64_t, const Piece& part) {
  return graph.edges.ask(part.begin, part.end);
}

// The first neighbour u with test(u) at or after position `from` of the list that ends before `end`, or -1.
template <class Graph, class Test, class Counts>
HINTERLAND_FN int64_t find_neighbor(const Graph& graph, int64_t vertex, int64_t from, int64_t end, const Test& test,
                                    Counts& counts) {
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

// The lists of one task, as lanes lay them out together, by a GPU those of the group, and by a CPU, where a warp has one lane,
// one after the other: body(lists, vertex, from, to) for chunks [from, to) of them.
template <class Graph, class Counts, class Body>
HINTERLAND_FN void for_each_part(const Graph& graph, const Frontier& frontier, const Task& task, Counts& counts,
                                 const Body& body) {
  const uint32_t word = frontier.current[task.group()];
  int64_t skip = task.first_chunk();  // chunks of the group that other tasks have taken
  int64_t left = kTaskChunks;
  for (int sub = 0; sub < kGroup && left > 0; sub += Warp::kWidth) {
    const bool active = word >> (sub + Warp::lane()) & 1u;
    if (!Warp::any(active)) continue;
    const int64_t vertex = task.group() * kGroup + sub + Warp::lane();
    const auto lists = lists_of(graph, vertex, active, counts);
    const int64_t from = min_of(skip, lists.chunks), to = min_of(from + left, lists.chunks);
    body(lists, vertex, from, to);
    skip -= from;
    left -= to - from;
  }
}

// Visits the edges of one task.
template <class Graph, class Visitor, class Counts>
HINTERLAND_FN void visit(const Graph& graph, const Frontier& frontier, const Task& task, Visitor& visitor, Counts& counts) {
  for_each_part(graph, frontier, task, counts, [&](const auto& lists, int64_t vertex, int64_t from, int64_t to) {
    visit_chunks(graph, lists, vertex, from, to, visitor, counts);
  });
}

}  // namespace hinterland::graph
