// Multi-source breadth-first search: many searches in one, a bit a source (Then et al., "The more the merrier: efficient multi-
// source graph traversal", VLDB 2014), top-down and bottom-up.
//
// A mask says of a vertex which sources are near it. Two masks are kept for each, not three:
//   seen[v]:   the sources within `depth` edges of v;
//   coming[v]: those within depth + 1, as far as the level has been expanded; equal to seen[v] before that.
// A vertex hands on all that it has seen, not only what it saw last: its neighbours have had the rest for a level already. So
// the paper's mask of the frontier is not needed, and
//   push: the edges (u, v) out of vertices that saw a new source are visited: coming[v] |= seen[u];
//   pull: each vertex that lacks a source goes through its in-neighbours, coming[v] |= seen[u], until it lacks none.
// Sources that found nothing in a level are done, and nobody looks for them any more. A single source that lags behind the
// others, with few edges in its frontier, would make each pulling vertex go to the end of its list. So one level may do both:
// first it pushes the vertices that laggards have just reached, then it pulls for the other sources (to_push()).
//
// Bits only ever get set, so levels do not depend on direction, the number of threads, or the processor.
#pragma once

#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

inline constexpr int kMostSources = 64;  // of one search

// What a search is given. Graphs lie in memory that the processor addresses.
struct MsBfsParams {
  const GraphWords* graph;
  const GraphWords* incoming;  // lists of in-neighbours; null: only push
  const int64_t* sources;      // [num_sources]
  int64_t num_sources;
  int32_t* levels;  // [num_sources][vertices], all -1; null where they are not asked for
  char* scratch;    // that of an MsBfsState
};

// What is known of each source at the end, and counters in between.
struct MsBfsControl {
  int64_t reached[kMostSources], distance_sum[kMostSources], eccentricity[kMostSources];
  int64_t seen_edges[kMostSources];    // out of the vertices that the source has reached
  int64_t new_edges[2][kMostSources];  // out of those it reached in this level, and in the one before or after
  uint64_t found[2];                   // the sources that reached a vertex in this level, and in the one before or after
  int64_t padding[14];
  int64_t full;        // vertices that lack no source
  int64_t full_edges;  // out of them
  int64_t padding_too[14];
};

// Mask is uint32_t or uint64_t, for which the memory is planned.
template <class Mask>
struct MsBfsState {
  Scratch scratch;
  MsBfsControl* control;
  Mask* seen;
  Mask* coming;
  int32_t* levels;  // source after source, or null where nobody wants them
  Frontier frontier;

  HINTERLAND_FN MsBfsState(const MsBfsParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        control(scratch.take<MsBfsControl>(1)),
        seen(reinterpret_cast<Mask*>(scratch.take<uint64_t>(num_vertices))),
        coming(reinterpret_cast<Mask*>(scratch.take<uint64_t>(num_vertices))),
        levels(p.levels),
        frontier(scratch, num_vertices, num_edges) {}

  // The sources whose last level was not empty.
  HINTERLAND_FN Mask active(int64_t depth) const { return static_cast<Mask>(atomic_load(control->found[depth & 1])); }

  template <class Touched>
  HINTERLAND_FN void mark(int64_t vertex, Touched& touched) const {
    if (!(atomic_load(frontier.next[group_of(vertex)]) & bit_of(vertex))) frontier.mark(vertex, touched);
  }
};

// Sources that a lane counts for: i * Warp::kWidth + Warp::lane() for each i below.
template <class Mask>
inline constexpr int kShare = 8 * sizeof(Mask) / Warp::kWidth;

// Bit k of lane i's result is bit i of lane k's word (Warren, "Hacker's Delight", section 7-3, a row to a lane).
HINTERLAND_FN uint32_t transposed(uint32_t word) {
  uint32_t low = 0x0000ffffu;  // the columns without bit `step`
  for (int step = 16; step > 0; step /= 2, low ^= low << step) {
    const uint32_t other = Warp::broadcast(word, Warp::lane() ^ step);
    word = Warp::lane() & step ? (word & ~low) | (other >> step & low) : (word & low) | (other & low) << step;
  }
  return word;
}

// Writes the level of a vertex that sources have just reached, where levels are asked for. All lanes together, each with its
// own
// vertex: those of one source after another are written by neighbouring lanes.
template <class Mask>
struct WriteLevels {
  int32_t* levels;
  int64_t num_vertices;

  HINTERLAND_FN void operator()(int64_t vertex, Mask fresh, int64_t depth) const {
    if (levels == nullptr) return;
    for (Mask left = Warp::bits_of_all(fresh); left != 0; left &= left - 1) {
      const int source = stdlib::countr_zero(left);
      if (fresh >> source & 1u) levels[source * num_vertices + vertex] = static_cast<int32_t>(depth);
    }
  }
};

// What a warp learns of the vertices that enter the frontier: which sources are new to them. `reach` is told. Each lane counts
// for its share of the sources, so that all counters together are added to memory once a loop.
template <class Mask, class Reach>
class Arrivals {
 public:
  HINTERLAND_FN Arrivals(const MsBfsState<Mask>& state, const Reach& reach, int64_t depth)
      : state_(state), reach_(reach), depth_(depth), wanted_(state.active(depth - 1)) {}

  // Groups [first, last) of a list, before they are settled.
  template <class Graph, class Counts>
  HINTERLAND_FN void count(const Graph& graph, const GroupList& groups, int64_t first, int64_t last, Counts& counts) {
    for (int64_t i = first; i < last; ++i) {
      const uint32_t word = state_.frontier.next[groups[i]];
      for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
        const bool marked = word >> (sub + Warp::lane()) & 1u;
        if (!Warp::any(marked)) continue;
        const int64_t vertex = groups[i] * kGroup + sub + Warp::lane();
        const ListBounds list(graph, vertex, marked, counts);
        const int64_t degree = list.end - list.begin;
        counts.vertices += marked;
        counts.edges += degree;
        const Mask fresh = marked ? look_at(vertex, degree) : Mask{0};
        found_ |= fresh;
        add(fresh, degree);
        reach_(vertex, fresh, depth_);
      }
    }
  }

  HINTERLAND_FN void add_to_control() const {
    MsBfsControl& control = *state_.control;
    for (int i = 0; i < kShare<Mask>; ++i) {
      if (vertices_[i] == 0) continue;
      const int source = i * Warp::kWidth + Warp::lane();
      atomic_add(control.reached[source], vertices_[i]);
      atomic_add(control.distance_sum[source], vertices_[i] * depth_);
      atomic_store(control.eccentricity[source], depth_);
      atomic_add(control.seen_edges[source], edges_[i]);
      atomic_add(control.new_edges[depth_ & 1][source], edges_[i]);
    }
    const int64_t sums[] = {Warp::sum(full_), Warp::sum(full_edges_)};
    const Mask found = Warp::bits_of_all(found_);
    if (Warp::lane() != 0 || found == 0) return;
    atomic_or(control.found[depth_ & 1], static_cast<uint64_t>(found));
    if (sums[0] != 0) atomic_add(control.full, sums[0]), atomic_add(control.full_edges, sums[1]);
  }

 private:
  // The sources that are new to one vertex.
  HINTERLAND_FN Mask look_at(int64_t vertex, int64_t degree) {
    const Mask before = state_.seen[vertex], now = state_.coming[vertex];
    if ((wanted_ & ~before) != 0 && (wanted_ & ~now) == 0) ++full_, full_edges_ += degree;
    return now & ~before;
  }

  // All lanes together, each with its own vertex. Degrees are summed binary digit by digit: for all vertices of a source at
  // once, which would take turns otherwise.
  HINTERLAND_FN void add(Mask fresh, int64_t degree) {
    if constexpr (Warp::kWidth == 1) {
      for (; fresh != 0; fresh &= fresh - 1) {
        const int source = stdlib::countr_zero(fresh);
        ++vertices_[source], edges_[source] += degree;
      }
    } else {
      uint32_t vertices[kShare<Mask>];  // of each source, a bit a lane
      for (int i = 0; i < kShare<Mask>; ++i) {
        vertices[i] = transposed(static_cast<uint32_t>(fresh >> i * Warp::kWidth));
        vertices_[i] += stdlib::popcount(vertices[i]);
      }
      for (uint64_t left = Warp::bits_of_all(static_cast<uint64_t>(degree)); left != 0; left &= left - 1) {
        const int digit = stdlib::countr_zero(left);
        const uint32_t having = Warp::ballot(degree >> digit & 1);
        for (int i = 0; i < kShare<Mask>; ++i)
          edges_[i] += static_cast<int64_t>(stdlib::popcount(vertices[i] & having)) << digit;
      }
    }
  }

  const MsBfsState<Mask>& state_;
  const Reach& reach_;
  int64_t depth_;
  Mask wanted_, found_ = 0;
  int64_t vertices_[kShare<Mask>] = {}, edges_[kShare<Mask>] = {};
  int64_t full_ = 0, full_edges_ = 0;
};

// Settles groups [first, last) of a list, at most one a lane. Of the marked vertices only those stay marked that one of the
// sources `pushed` has just reached.
template <class Mask>
HINTERLAND_FN void settle(const MsBfsState<Mask>& state, Mask pushed, const GroupList& groups, int64_t first, int64_t last) {
  for (int64_t i = first; i < last; ++i) {
    const uint32_t word = state.frontier.next[groups[i]];
    uint32_t stay = 0;
    for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
      const int64_t vertex = groups[i] * kGroup + sub + Warp::lane();
      Mask fresh = 0;
      if (word >> (sub + Warp::lane()) & 1u) {
        const Mask now = state.coming[vertex];
        fresh = now & ~state.seen[vertex];
        state.seen[vertex] = now;
      }
      stay |= Warp::ballot((fresh & pushed) != 0) << sub;
    }
    Warp::sync();                                                          // all lanes have read the word
    if (i - first == Warp::lane()) state.frontier.next[groups[i]] = stay;  // that collect() reads in the same lane
  }
}

// Push: hands on what the edges' sources have seen.
template <class Mask, class Touched>
struct MsPush {
  const MsBfsState<Mask>& state;
  Touched& touched;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) const {
    Mask fresh[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k) fresh[k] = batch.from[k] < 0 ? 0 : state.seen[batch.from[k]];
    for (int k = 0; k < Batch::kSize; ++k)
      if (fresh[k] != 0) fresh[k] &= ~atomic_load(state.coming[batch.to[k]]);
    for (int k = 0; k < Batch::kSize; ++k)
      if (fresh[k] != 0) atomic_or(state.coming[batch.to[k]], fresh[k]);
    for (int k = 0; k < Batch::kSize; ++k)
      if (fresh[k] != 0) state.mark(batch.to[k], touched);
  }
};

// What of `missing` none of the neighbours at positions [from, end) of the vertex's list has seen: 0 as soon as all has been
// found. All lanes look together.
template <class Graph, class Mask, class Counts>
HINTERLAND_FN Mask look_for(const Graph& incoming, const MsBfsState<Mask>& state, int64_t vertex, int64_t from, int64_t end,
                            Mask missing, Counts& counts) {
  const auto look = [&](const int64_t (&to)[kInFlight]) {
    Mask seen = 0;
    for (int k = 0; k < kInFlight; ++k)
      if (to[k] >= 0) seen |= state.seen[to[k]];
    missing &= ~Warp::bits_of_all(seen);
    return missing == 0;
  };
  look_through(incoming, vertex, from, end, look, counts);
  return missing;
}

// Pull, as advance_pull() asks for it: the sources `pulled`.
template <class Graph, class Mask>
struct PullSources {
  const Graph& incoming;
  const MsBfsState<Mask>& state;
  Mask pulled;

  // By what they had before this level.
  HINTERLAND_FN uint32_t lacking(int64_t group) const {
    return those_of(group, incoming.num_vertices, [&](int64_t v) { return (pulled & ~state.seen[v]) != 0; });
  }

  // The vertices of a group look for those that they lack, besides what has been pushed in this level. `long_lists` takes the
  // vertices whose lists are shared by many warps.
  template <class Touched, class Tasks, class Counts>
  HINTERLAND_FN void group(int64_t group, Touched& touched, Tasks& long_lists, Counts& counts) const {
    uint32_t found = 0;
    for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
      const int64_t base = group * kGroup + sub, own = base + Warp::lane();
      const Mask before = incoming.has(own) ? state.coming[own] : pulled;
      const Mask lacking = pulled & ~before;
      Mask missing = lacking;
      bool goes_on = missing != 0;
      for (int64_t j = 0; j < incoming.prefix_length && goes_on; ++j) {
        const int64_t u = incoming.prefix_neighbor(own, j);
        if (incoming.has(u)) missing &= ~state.seen[u];
        goes_on = u >= 0 && missing != 0;
      }
      const ListBounds list(incoming, own, goes_on, counts);
      const int64_t from = min_of(list.begin + incoming.prefix_length, list.end);
      const bool is_long = list.end - from > kTaskEdges;
      long_lists.append(is_long ? ceil_div<int64_t>(list.end - from, kTaskEdges) : 0,
                        [&](int64_t k) { return Task::of(own, k); });
      for (uint32_t searching = Warp::ballot(from < list.end && !is_long); searching != 0; searching &= searching - 1) {
        const int lane = stdlib::countr_zero(searching);
        const Mask left = look_for(incoming, state, base + lane, Warp::broadcast(from, lane), Warp::broadcast(list.end, lane),
                                   Warp::broadcast(missing, lane), counts);
        if (Warp::lane() == lane) missing = left;
      }
      if (missing != lacking) state.coming[own] = before | (lacking & ~missing);
      found |= Warp::ballot(missing != lacking) << sub;
    }
    if (found != 0 && Warp::lane() == 0) {
      uint32_t& next = state.frontier.next[group];
      if (next == 0) touched.append(group);
      next |= found;
    }
  }

  // A part of a long list. What other parts have found by now is not looked for.
  template <class Touched, class Counts>
  HINTERLAND_FN void part(const Task& task, Touched& touched, Counts& counts) const {
    const int64_t vertex = task.vertex();
    const Mask lacking = pulled & ~Warp::broadcast(atomic_load(state.coming[vertex]), 0);
    if (lacking == 0) return;
    const Piece part = part_of(incoming, task);
    const Mask fresh = lacking & ~look_for(incoming, state, vertex, part.begin, part.end, lacking, counts);
    if (fresh == 0 || Warp::lane() != 0) return;
    atomic_or(state.coming[vertex], fresh);
    state.mark(vertex, touched);
  }
};

// The sources to push in level `depth`, so that it is likely to read least. A vertex that lacks a source has no neighbour in
// that source's levels before, so each neighbour brings the source with the share that the source's frontier has of the edges
// it has not left behind. Vertices that pull read on until the source of the smallest share has come; so the sources of small
// shares are those to push, where their frontiers have fewer edges than that saves. All lanes call it together.
struct MsDirection {
  // Reading a list costs as much as so many more edges; and the least share that is divided by. Both: docs/notes/thresholds.md.
  static constexpr double kListCost = 16, kLeastShare = 1e-6;

  template <class Graph, class Mask>
  HINTERLAND_FN static Mask to_push(const Graph& incoming, const MsBfsState<Mask>& state, int64_t depth) {
    const MsBfsControl& control = *state.control;
    double edges[kShare<Mask>], share[kShare<Mask>], left[kShare<Mask>];  // left: the chance that no head brings the source
    double all_edges = 0;
    for (int i = 0; i < kShare<Mask>; ++i) {
      const int source = i * Warp::kWidth + Warp::lane();
      edges[i] = static_cast<double>(control.new_edges[depth & 1][source]);
      const double ahead = static_cast<double>(incoming.num_edges - control.seen_edges[source]);
      share[i] = edges[i] / max_of(1.0, edges[i] + max_of(0.0, ahead));
      left[i] = 1;
      for (int64_t j = 0; j < incoming.prefix_length; ++j) left[i] *= 1 - share[i];
      all_edges += edges[i];
    }
    all_edges = Warp::sum(all_edges);

    const double frontier_edges = max_of(1.0, static_cast<double>(state.frontier.edges(depth)));
    const double push_cost = 1 + kListCost * static_cast<double>(state.frontier.vertices(depth)) / frontier_edges;
    const int64_t reachable = incoming.num_vertices - incoming.num_isolated;
    const double lacking = static_cast<double>(max_of<int64_t>(0, reachable - control.full));
    const double lacking_edges = static_cast<double>(max_of<int64_t>(0, incoming.num_edges - control.full_edges));
    const double degree = max_of(1.0, lacking_edges / max_of(1.0, lacking));
    // Looking at every group costs something even where nothing is found.
    const double scan = static_cast<double>(state.frontier.num_groups);

    double least = frontier_edges * push_cost, least_pulled = 2;  // sources of at least this share are pulled: at first none
    double looks = 0;
    int64_t before = 0;  // sources pulled for the bound before
    for (double bound = 0.5; bound > kLeastShare; bound /= 2) {
      int64_t sources = 0;
      double pulled_edges = 0, missing = 0;
      for (int i = 0; i < kShare<Mask>; ++i)
        if (share[i] >= bound) ++sources, pulled_edges += edges[i], missing += left[i];
      sources = Warp::sum(sources);
      if (sources == before) continue;
      // That the last of n sources comes takes some log n times as long as that one does.
      looks = max_of(looks, stdlib::bit_width(static_cast<uint64_t>(sources - before)) / (1.5 * bound));
      before = sources;
      const double searching = lacking * min_of(1.0, Warp::sum(missing));
      const double read = degree * looks / (degree + looks);  // less than either: degrees differ, and so does luck
      const double pushed = min_of(frontier_edges, all_edges - Warp::sum(pulled_edges));
      const double cost = searching * (read + kListCost) + scan + pushed * push_cost;
      if (cost < least) least = cost, least_pulled = bound;
    }
    Mask pushed = 0;
    for (int i = 0; i < kShare<Mask>; ++i)
      if (share[i] < least_pulled) pushed |= Mask{1} << (i * Warp::kWidth + Warp::lane());
    return Warp::bits_of_all(pushed) & state.active(depth);
  }
};

// The search from sources[0] to sources[num_sources - 1], no more than a mask has bits. `incoming` are the lists of
// in-neighbours, or null where it may only push. `reach` is told of each vertex, the sources that have just reached it, and
// their distance.
template <class Team, class Graph, class Mask, class Reach>
HINTERLAND_FN void msbfs(Team& team, const Graph& graph, const Graph* incoming, const MsBfsState<Mask>& state,
                         const int64_t* sources, int64_t num_sources, const Reach& reach) {
  const Frontier& frontier = state.frontier;
  MsBfsControl& control = *state.control;
  team.single([&] {
    frontier.begin();
    control.found[1] = ~uint64_t{0} >> (kMostSources - num_sources);  // as if found in level -1
  });
  team.wait();
  team.static_for(num_sources, [&](const auto& ranges) {
    auto touched = team.appender(frontier.touched_queue(-1));
    ranges([&](int64_t first, int64_t last) {
      const int64_t i = first + Warp::lane();
      if (i >= last) return;
      atomic_or(state.coming[sources[i]], Mask{1} << i);
      state.mark(sources[i], touched);
    });
  });

  for (int64_t depth = 0; frontier.num_touched(depth) != 0; ++depth) {
    const GroupList groups = frontier.groups(depth);
    team.single([&] {
      frontier.begin_step(depth, team.now_ns());
      for (int64_t& edges : control.new_edges[(depth + 1) & 1]) edges = 0;
    });
    team.static_for(groups.count, [&](const auto& ranges) {
      Arrivals<Mask, Reach> arrivals(state, reach, depth);
      CountsOf<Graph> counts;
      ranges([&](int64_t first, int64_t last) { arrivals.count(graph, groups, first, last, counts); });
      arrivals.add_to_control();
      counts.add_to(frontier, depth);
    });

    // Where no vertex lacks a source no edge finds another.
    const Mask active = atomic_load(control.full) == graph.num_vertices ? 0 : state.active(depth);
    const Mask pushed = incoming == nullptr ? active : active & MsDirection::to_push(*incoming, state, depth);
    team.static_for(groups.count, [&](const auto& ranges) {
      auto tasks = team.appender(frontier.task_queue(depth));
      const EnterNothing nothing;
      StepCounts<> counted_before;
      ranges([&](int64_t first, int64_t last) {
        settle(state, pushed, groups, first, last);
        collect(graph, frontier, groups, first, last, nothing, tasks, counted_before);
      });
    });

    const int64_t num_tasks = frontier.num_tasks(depth);
    team.single([&] {
      frontier.begin_visit(depth, num_tasks, team.now_ns());
      control.found[(depth + 1) & 1] = 0;
    });
    if (num_tasks != 0)
      visit_tasks(team, graph, frontier, depth, num_tasks,
                  [&]<class Touched>(Touched& touched) { return MsPush<Mask, Touched>{state, touched}; });
    const Mask pulled = active & ~pushed;
    if (pulled != 0) advance_pull(team, *incoming, frontier, depth, PullSources<Graph, Mask>{*incoming, state, pulled});
  }
  team.single([&] { frontier.end(team.now_ns()); });
}

// The same, which writes levels.
template <class Team, class Graph, class Mask>
HINTERLAND_FN void msbfs(Team& team, const Graph& graph, const Graph* incoming, const MsBfsState<Mask>& state,
                         const int64_t* sources, int64_t num_sources) {
  const WriteLevels<Mask> levels{state.levels, state.frontier.num_vertices};
  msbfs(team, graph, incoming, state, sources, num_sources, levels);
}

}  // namespace hinterland::graph
