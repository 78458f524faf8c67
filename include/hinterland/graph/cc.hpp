// Connected components by Afforest (Sutton, Ben-Nun and Barak, "Optimizing parallel graph connectivity computation via subgraph
// sampling", IPDPS 2018). In directed graphs the components are weak: edges count in both directions.
//
// labels[v] is a vertex of v's component that is not greater than v, so the labels form a forest in which ways lead down in
// number. Linking two vertices hooks the greater root of their trees onto the smaller one; compressing points every vertex at
// its root. When every edge has been linked, the root of a component is its smallest vertex, whatever the order was.
//
// Few edges need linking to find the largest component of most graphs: two for each vertex. The vertices outside it then go
// through their lists. Those within need not: an edge to a vertex outside is in that vertex's list too. That holds where the
// graph is undirected, or where the lists of in-neighbours are there; elsewhere every list is read.
#pragma once

#include "hinterland/core/philox.hpp"
#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

// Afforest's two numbers: neighbours of each vertex that are linked at first, and vertices that are asked which component is
// the largest.
inline constexpr int64_t kLinkedFirst = 2, kLabelSamples = 1024;
inline constexpr uint64_t kSampleKey = 0x636f6d706f6e656eull;

// What a run is given. Graphs lie in memory that the processor addresses; labels are as wide as the instance's, and need not be
// set.
struct ComponentsParams {
  const GraphWords* graph;
  const GraphWords* incoming;  // lists of in-neighbours, `graph` itself for an undirected graph; null where they are not there
  int64_t reread;              // whether reading a list twice costs little
  void* labels;                // Id [vertices]
  void* seconds;               // Id [vertices] where a CPU puts second neighbours; null on a GPU, or without room
  char* scratch;               // that of a ComponentsState
};

struct ComponentsControl {
  int64_t count;  // components
  int64_t padding0[15];
  int64_t rarest;  // kLabelSamples less the votes of the most frequent label, and which sample has it
  int64_t padding1[15];
};

template <class Id>
struct ComponentsState {
  Scratch scratch;
  Id *labels, *seconds;
  ComponentsControl* control;
  Id* samples;
  Frontier frontier;

  HINTERLAND_FN ComponentsState(const ComponentsParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        labels(static_cast<Id*>(p.labels)),
        seconds(static_cast<Id*>(p.seconds)),
        control(scratch.take<ComponentsControl>(1)),
        samples(reinterpret_cast<Id*>(scratch.take<int64_t>(kLabelSamples))),  // one layout for labels of both widths
        frontier(scratch, num_vertices, num_edges) {}

  HINTERLAND_FN Id label(int64_t vertex) const { return atomic_load(labels[vertex]); }

  // Joins the trees that a and b are in. A vertex passed on the way up is pointed at the one two steps above it (path halving),
  // or all who climb after it would go the whole way again: in a graph with local numbers the ways are as long as it is wide.
  HINTERLAND_FN void link(Id a, Id b) const {
    while (a != b) {
      const Id high = max_of(a, b), low = min_of(a, b);
      Id above = label(high);
      if (above == high) above = atomic_cas(labels[high], high, low);
      if (above == high || above == low) return;
      a = label(above);
      b = label(low);
      if (a != above) atomic_store(labels[high], a);  // no root any more, so nobody hooks it onto another
    }
  }

  // Points a vertex at its root. Every step is written, so that those further up the same way take it in longer strides.
  HINTERLAND_FN Id compress(int64_t vertex) const {
    Id up = label(vertex);
    for (Id above = label(up); above != up; above = label(up)) {
      atomic_store(labels[vertex], above);
      up = above;
    }
    return up;
  }
};

// Links both ends of the edges it is shown.
template <class Id>
struct LinkEnds {
  const ComponentsState<Id>& state;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) const {
    Id from[Batch::kSize], to[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k) {
      const bool there = batch.from[k] >= 0;
      from[k] = there ? state.label(batch.from[k]) : 0;
      to[k] = there ? state.label(batch.to[k]) : 0;
    }
    for (int k = 0; k < Batch::kSize; ++k) state.link(from[k], to[k]);
  }
};

// Points all vertices at their roots, and counts these if it is the last time. A GPU's warps go through the vertices side by
// side, so that what is above a vertex has been compressed, or is at the same time. With a range for each warp ways would lead
// through ranges of which most is yet to come, one step at a time.
template <bool kCounts = false, class Team, class Id>
HINTERLAND_FN void compress_all(Team& team, const ComponentsState<Id>& state) {
  constexpr bool kSideBySide = Warp::kWidth > 1;
  const Frontier& frontier = state.frontier;
  team.static_for(kSideBySide ? frontier.num_vertices : frontier.num_groups, [&](const auto& ranges) {
    int64_t roots = 0;
    const auto compress = [&](int64_t vertex, bool there) {
      if (there) roots += static_cast<int64_t>(state.compress(vertex)) == vertex;
    };
    if constexpr (kSideBySide)
      ranges([&](int64_t first, int64_t last) { compress(first + Warp::lane(), first + Warp::lane() < last); });
    else
      for_each_vertex_of(ranges, frontier, compress);
    if constexpr (kCounts) {
      roots = Warp::sum(roots);
      if (roots != 0 && Warp::lane() == 0) atomic_add(state.control->count, roots);
    }
  });
}

// Links each vertex with its first neighbours. `reread`: reading a list twice costs little. Then the first neighbour becomes
// the label where it is smaller, which needs no atomic operation, and trees are low before the second is linked. A CPU reads a
// list once all the same: the second neighbour is put down on the way.
template <class Team, class Graph, class Id>
HINTERLAND_FN void link_first(Team& team, const Graph& graph, const ComponentsState<Id>& state, bool reread) {
  const Frontier& frontier = state.frontier;
  const bool kept = Warp::kWidth == 1 && reread && state.seconds != nullptr;  // never in a GPU's code
  if (reread) {
    for_each_list(team, graph, frontier, 0, kLinkedFirst, [&](int64_t vertex, bool there, auto& counts) {
      const int64_t u = nth_neighbor(graph, vertex, 0, there, counts);
      if (there) state.labels[vertex] = static_cast<Id>(u >= 0 ? min_of(u, vertex) : vertex);
      if (kept) {
        const int64_t second = nth_neighbor(graph, vertex, 1, there, counts);
        if (there) state.seconds[vertex] = static_cast<Id>(second >= 0 ? second : vertex);
      }
    });
    compress_all(team, state);
  }
  if (kept) {
    for_each_vertex(team, frontier, [&](int64_t vertex, bool there) {
      if (there) state.link(state.label(vertex), state.label(state.seconds[vertex]));
    });
  } else {
    for_each_list(team, graph, frontier, 0, kLinkedFirst, [&](int64_t vertex, bool there, auto& counts) {
      int64_t to[kLinkedFirst];
      for (int64_t j = reread; j < kLinkedFirst; ++j) to[j] = nth_neighbor(graph, vertex, j, there, counts);
      for (int64_t j = reread; j < kLinkedFirst; ++j)
        if (to[j] >= 0) state.link(state.label(vertex), state.label(to[j]));
    });
  }
  compress_all(team, state);
}

// The label that most of some drawn vertices have, by majority among them; the same for any team.
template <class Team, class Id>
HINTERLAND_FN int64_t most_frequent_label(Team& team, const ComponentsState<Id>& state) {
  int64_t& rarest = state.control->rarest;
  team.single([&] { rarest = stdlib::numeric_limits<int64_t>::max(); });
  for_each(team, kLabelSamples, [&](int64_t i) {
    state.samples[i] = state.label(static_cast<int64_t>(Philox{kSampleKey}.below(state.frontier.num_vertices, i)));
  });
  for_each(team, kLabelSamples, [&](int64_t i) {
    Id others = 0;  // as wide as a label, so that a CPU compares as many at once as it can
    for (int64_t j = 0; j < kLabelSamples; ++j) others += state.samples[j] != state.samples[i];
    atomic_min(rarest, static_cast<int64_t>(others) * kLabelSamples + i);
  });
  return static_cast<int64_t>(state.samples[atomic_load(rarest) % kLabelSamples]);
}

// Step `step`: the vertices whose label is not `passed` link all of their neighbours in `graph`.
template <class Team, class Graph, class Id>
HINTERLAND_FN void link_rest(Team& team, const Graph& graph, const ComponentsState<Id>& state, int64_t step, int64_t passed) {
  const Frontier& frontier = state.frontier;
  team.single([&] {
    frontier.begin_step(step, team.now_ns());
    state.control->count = 0;
  });
  // Most of those that are left of a skewed graph have no list: no task is made of them.
  const auto is_open = [&](int64_t vertex) {
    return static_cast<int64_t>(state.label(vertex)) != passed && (passed < 0 || graph.degree(vertex) != 0);
  };
  const GroupList all = frontier.all_groups();
  advance(team, graph, frontier, step, all, where(frontier, all, is_open), [&](auto&) { return LinkEnds<Id>{state}; });
}

// The whole algorithm. `incoming` are the lists of in-neighbours, those of `graph` itself if it is undirected, or null where
// they are not there.
template <class Team, class Graph, class Id>
HINTERLAND_FN void connected_components(Team& team, const Graph& graph, const Graph* incoming, const ComponentsState<Id>& state,
                                        bool reread) {
  const Frontier& frontier = state.frontier;
  const bool passes = incoming != nullptr && graph.num_edges != 0;
  begin_first_step(team, frontier);
  if (!passes || !reread)
    for_each_vertex(team, frontier, [&](int64_t vertex, bool there) {
      if (there) state.labels[vertex] = static_cast<Id>(vertex);
    });
  int64_t passed = -1;
  if (passes) {
    link_first(team, graph, state, reread);
    passed = most_frequent_label(team, state);
  }
  // A loop, so that its code is there once: twice took half as long again to compile.
  const int64_t last_step = passes && !(incoming->offsets == graph.offsets) ? 2 : 1;
  Graph lists = graph;
  for (int64_t step = 1; step <= last_step; ++step) {
    link_rest(team, lists, state, step, passed);
    compress_all<true>(team, state);
    if (passes) lists = *incoming, passed = state.labels[passed];  // its root may have been hooked onto another
  }
  team.single([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland::graph
