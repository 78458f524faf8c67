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
// Sources that found nothing in a level are done, and nobody looks for them any more.
//
// Bits only ever get set, so levels do not depend on direction, the number of threads, or the processor.
#pragma once

#include "hinterland/graph/visit.hpp"

namespace hinterland {

inline constexpr int kMostSources = 64;  // of one search

// What is known of each source at the end, and counters in between.
struct MsBfsControl {
  int64_t reached[kMostSources], distance_sum[kMostSources], eccentricity[kMostSources];
  uint64_t found[2];  // the sources that reached a vertex in this level, and in the one before or after
  int64_t apart[14];
  int64_t full;        // vertices that lack no source
  int64_t full_edges;  // out of them
  int64_t seen_edges;  // out of the vertices that each source has reached, summed over the sources
  int64_t apart_too[13];
};

// The search's memory besides levels: one block, of which the first `zeroed` bytes must be zero at the start. It is planned for
// the widest masks.
struct MsBfsLayout {
  int64_t control, seen, coming, zeroed, bytes;
  FrontierLayout frontier;

  HINTERLAND_FN MsBfsLayout(int64_t num_vertices, int64_t num_edges, Layout layout = {})
      : control(layout.take<MsBfsControl>(1)),
        seen(layout.take<uint64_t>(num_vertices)),
        coming(layout.take<uint64_t>(num_vertices)),
        frontier(num_vertices, num_edges, layout) {
    zeroed = frontier.zeroed;
    bytes = frontier.bytes;
  }
};

// Mask is uint32_t or uint64_t.
template <class Mask>
struct MsBfsState {
  MsBfsControl* control;
  Mask* seen;
  Mask* coming;
  int32_t* levels;  // source after source, or null where nobody wants them
  Frontier frontier;

  HINTERLAND_FN MsBfsState(int32_t* levels, char* scratch, const MsBfsLayout& at, int64_t num_vertices)
      : control(reinterpret_cast<MsBfsControl*>(scratch + at.control)),
        seen(reinterpret_cast<Mask*>(scratch + at.seen)),
        coming(reinterpret_cast<Mask*>(scratch + at.coming)),
        levels(levels),
        frontier(scratch, at.frontier, num_vertices) {}

  // The sources whose last level was not empty.
  HINTERLAND_FN Mask active(int64_t depth) const { return static_cast<Mask>(atomic_load(control->found[depth & 1])); }

  template <class Touched>
  HINTERLAND_FN void mark(int64_t vertex, Touched& touched) const {
    if (!(atomic_load(frontier.next[group_of(vertex)]) & bit_of(vertex))) frontier.mark(vertex, touched);
  }
};

// What a warp learns as vertices enter the frontier: which sources are new to them. Each lane counts for its share of the
// sources, so that all counters together are added to memory once a loop.
template <class Mask>
class Arrivals {
 public:
  HINTERLAND_FN Arrivals(const MsBfsState<Mask>& state, int64_t depth)
      : state_(state), depth_(depth), wanted_(state.active(depth - 1)) {}

  // Groups [first, last) of a list, at most one a lane, before they are collected.
  template <class Graph>
  HINTERLAND_FN void settle(const Graph& graph, const GroupList& groups, int64_t first, int64_t last) {
    const bool has_group = first + Warp::lane() < last;
    const int64_t own_group = has_group ? groups[first + Warp::lane()] : 0;
    const uint32_t own_word = has_group ? state_.frontier.next[own_group] : 0;
    for (int turn = 0; turn < last - first; ++turn) {
      const int64_t group = Warp::broadcast(own_group, turn);
      const uint32_t word = Warp::broadcast(own_word, turn);
      for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
        const bool marked = word >> (sub + Warp::lane()) & 1u;
        if (!Warp::any(marked)) continue;
        const int64_t vertex = group * kGroup + sub + Warp::lane();
        count(vertex, marked ? enter(graph, vertex) : Mask{0});
      }
    }
  }

  HINTERLAND_FN void add_to_control() const {
    MsBfsControl& control = *state_.control;
    for (int i = 0; i < kShare; ++i) {
      if (counts_[i] == 0) continue;
      const int source = i * Warp::kWidth + Warp::lane();
      atomic_add(control.reached[source], counts_[i]);
      atomic_add(control.distance_sum[source], counts_[i] * depth_);
      atomic_store(control.eccentricity[source], depth_);
    }
    const int64_t sums[] = {Warp::sum(full_), Warp::sum(full_edges_), Warp::sum(seen_edges_)};
    if (Warp::lane() != 0 || found_ == 0) return;
    atomic_or(control.found[depth_ & 1], static_cast<uint64_t>(found_));
    if (sums[0] != 0) atomic_add(control.full, sums[0]), atomic_add(control.full_edges, sums[1]);
    atomic_add(control.seen_edges, sums[2]);
  }

 private:
  static constexpr int kWord = 32;
  static constexpr int kShare = 8 * sizeof(Mask) / Warp::kWidth;

  // The sources that are new to one vertex.
  template <class Graph>
  HINTERLAND_FN Mask enter(const Graph& graph, int64_t vertex) {
    const Mask before = state_.seen[vertex], now = state_.coming[vertex], fresh = now & ~before;
    const int64_t degree = graph.degree(vertex);
    state_.seen[vertex] = now;
    seen_edges_ += degree * stdlib::popcount(fresh);
    if ((wanted_ & ~before) != 0 && (wanted_ & ~now) == 0) ++full_, full_edges_ += degree;
    return fresh;
  }

  // All lanes together, each with its own vertex: the levels of one source after another are written by neighbouring lanes.
  HINTERLAND_FN void count(int64_t vertex, Mask fresh) {
    const Mask all = Warp::bits_of_all(fresh);
    found_ |= all;
    for (int begin = 0; begin < static_cast<int>(8 * sizeof(Mask)); begin += kWord) {
      for (uint32_t left = static_cast<uint32_t>(all >> begin); left != 0; left &= left - 1) {
        const int bit = stdlib::countr_zero(left);
        const bool is_new = fresh >> (begin + bit) & 1u;
        if (is_new && state_.levels != nullptr)
          state_.levels[(begin + bit) * state_.frontier.num_vertices + vertex] = static_cast<int32_t>(depth_);
        const int arrived = stdlib::popcount(Warp::ballot(is_new));
        if (bit % Warp::kWidth == Warp::lane()) counts_[(begin + bit) / Warp::kWidth] += arrived;
      }
    }
  }

  const MsBfsState<Mask>& state_;
  int64_t depth_;
  Mask wanted_, found_ = 0;
  int64_t counts_[kShare] = {};
  int64_t full_ = 0, full_edges_ = 0, seen_edges_ = 0;
};

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
template <class Graph, class Mask>
HINTERLAND_FN Mask look_for(const Graph& incoming, const MsBfsState<Mask>& state, int64_t vertex, int64_t from, int64_t end,
                            Mask missing, StepCounts& counts) {
  const auto look = [&](const int64_t (&to)[kChunksInFlight]) {
    Mask seen = 0;
    for (int k = 0; k < kChunksInFlight; ++k)
      if (to[k] >= 0) seen |= state.seen[to[k]];
    missing &= ~Warp::bits_of_all(seen);
    return missing == 0;
  };
  look_through(incoming, vertex, from, end, look, counts);
  return missing;
}

// Pull: the vertices of a group look for the active sources that they lack. `long_lists` takes those whose lists are shared by
// many warps.
template <class Graph, class Mask, class Touched, class Tasks>
HINTERLAND_FN void pull(const Graph& incoming, const MsBfsState<Mask>& state, Mask active, int64_t group, Touched& touched,
                        Tasks& long_lists, StepCounts& counts) {
  uint32_t found = 0;
  for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
    const int64_t base = group * kGroup + sub, own = base + Warp::lane();
    const Mask seen = incoming.has(own) ? state.seen[own] : active;
    const Mask lacking = active & ~seen;
    Mask missing = lacking;
    bool goes_on = missing != 0;
    for (int64_t j = 0; j < incoming.heads_per_vertex && goes_on; ++j) {
      const int64_t u = incoming.heads[j * incoming.num_vertices + own];
      if (incoming.has(u)) missing &= ~state.seen[u];
      goes_on = u >= 0 && missing != 0;
    }
    const ListBounds list(incoming, own, goes_on, counts);
    const int64_t from = min_of(list.begin + incoming.heads_per_vertex, list.end);
    const bool is_long = list.end - from > kTaskEdges;
    long_lists.append(is_long ? ceil_div<int64_t>(list.end - from, kTaskEdges) : 0,
                      [&](int64_t k) { return Task{own, from + k * kTaskEdges}; });
    for (uint32_t searching = Warp::ballot(from < list.end && !is_long); searching != 0; searching &= searching - 1) {
      const int lane = stdlib::countr_zero(searching);
      const Mask left = look_for(incoming, state, base + lane, Warp::broadcast(from, lane), Warp::broadcast(list.end, lane),
                                 Warp::broadcast(missing, lane), counts);
      if (Warp::lane() == lane) missing = left;
    }
    if (missing != lacking) state.coming[own] = seen | (lacking & ~missing);
    found |= Warp::ballot(missing != lacking) << sub;
  }
  if (found != 0 && Warp::lane() == 0) {
    state.frontier.next[group] = found;
    touched.append(group);
  }
}

// Pull, for a part of a long list: task.group is a vertex, task.first_chunk a position. What other parts have found by now is
// not looked for.
template <class Graph, class Mask, class Touched>
HINTERLAND_FN void pull_part(const Graph& incoming, const MsBfsState<Mask>& state, Mask active, const Task& task,
                             Touched& touched, StepCounts& counts) {
  const int64_t end = min_of(task.first_chunk + kTaskEdges, incoming.offsets[task.group + 1]);
  const Mask lacking = active & ~Warp::broadcast(atomic_load(state.coming[task.group]), 0);
  if (lacking == 0) return;
  const Mask fresh = lacking & ~look_for(incoming, state, task.group, task.first_chunk, end, lacking, counts);
  if (fresh == 0 || Warp::lane() != 0) return;
  atomic_or(state.coming[task.group], fresh);
  state.mark(task.group, touched);
}

// Whether pulling level `depth` is likely to read less than pushing it. A vertex that lacks a source has no neighbour in that
// source's levels before, so each neighbour brings the source with the share that the frontier's edges have in those left.
struct MsDirection {
  static constexpr double kListCost = 16;  // reading a list costs as much as so many more edges
  static constexpr int kMostLooks = 64;    // neighbours after which a vertex is taken to need all of them

  // seen_before: control->seen_edges before this level.
  template <class Graph, class Mask>
  HINTERLAND_FN static bool pulls(const Graph& incoming, const MsBfsState<Mask>& state, int64_t depth, int64_t seen_before) {
    MsBfsControl& control = *state.control;
    const double pushed = static_cast<double>(state.frontier.edges(depth));
    const double in_frontier = static_cast<double>(state.frontier.vertices(depth));
    const double sources = stdlib::popcount(state.active(depth));
    const double seen = static_cast<double>(atomic_load(control.seen_edges));
    const double arrived = seen - static_cast<double>(seen_before);
    const double ahead = max_of(0.0, sources * static_cast<double>(incoming.num_edges) - seen);
    const double share = arrived / max_of(1.0, arrived + ahead);

    const int64_t reachable = incoming.num_vertices - incoming.num_isolated;
    const double lacking = static_cast<double>(max_of<int64_t>(0, reachable - atomic_load(control.full)));
    const int64_t edges = max_of<int64_t>(0, incoming.num_edges - atomic_load(control.full_edges));
    const double degree = static_cast<double>(edges) / max_of(1.0, lacking);
    double missing = sources;  // that a vertex still lacks after some neighbours; below 1, the chance that it lacks one
    for (int64_t j = 0; j < incoming.heads_per_vertex; ++j) missing *= 1 - share;
    const double searching = lacking * min_of(1.0, missing);
    double looks = 0;
    while (missing > 1 && looks < kMostLooks) missing *= 1 - share, ++looks;
    looks = missing > 1 ? degree : min_of(degree, looks + 1 / max_of(share, 1e-9));
    // Looking at every group costs something even where nothing is found.
    const double scan = static_cast<double>(state.frontier.num_groups);
    return searching * (looks + kListCost) + scan < pushed + kListCost * in_frontier;
  }
};

inline constexpr int kMsPullGroups = 8;  // that a warp takes at once

template <class Team, class Graph, class Mask>
HINTERLAND_FN void pull_level(Team& team, const Graph& incoming, const MsBfsState<Mask>& state, int64_t depth) {
  const Frontier& frontier = state.frontier;
  const Mask active = state.active(depth);
  team.lead([&] { frontier.record(depth).pulled = 1; });
  team.take(ceil_div<int64_t>(frontier.num_groups, kMsPullGroups), [&](const auto& items) {
    auto touched = team.appender(frontier.touched_bag(depth));
    auto parts = team.appender(frontier.part_bag(depth));
    StepCounts counts;
    items([&](int64_t i) {
      const int64_t end = min_of((i + 1) * kMsPullGroups, frontier.num_groups);
      for (int64_t group = i * kMsPullGroups; group < end; ++group)
        pull(incoming, state, active, group, touched, parts, counts);
    });
    counts.add_to(frontier, depth);
  });
  const int64_t num_parts = frontier.num_parts(depth);
  if (num_parts == 0) return;
  team.take(num_parts, [&](const auto& items) {
    auto touched = team.appender(frontier.touched_bag(depth));
    StepCounts counts;
    items([&](int64_t i) { pull_part(incoming, state, active, frontier.tasks[i], touched, counts); });
    counts.add_to(frontier, depth);
  });
}

// The search from sources[0] to sources[num_sources - 1], no more than a mask has bits. `incoming` are the lists of
// in-neighbours, or null where it may only push.
template <class Team, class Graph, class Mask>
HINTERLAND_FN void msbfs(Team& team, const Graph& graph, const Graph* incoming, const MsBfsState<Mask>& state,
                         const int64_t* sources, int64_t num_sources) {
  const Frontier& frontier = state.frontier;
  MsBfsControl& control = *state.control;
  team.lead([&] {
    frontier.begin();
    control.found[1] = ~uint64_t{0} >> (kMostSources - num_sources);  // as if found in level -1
  });
  team.wait();
  team.loop(num_sources, [&](const auto& ranges) {
    auto touched = team.appender(frontier.touched_bag(-1));
    ranges([&](int64_t first, int64_t last) {
      const int64_t i = first + Warp::lane();
      if (i >= last) return;
      atomic_or(state.coming[sources[i]], Mask{1} << i);
      state.mark(sources[i], touched);
    });
  });

  int64_t seen_before = 0;
  for (int64_t depth = 0; frontier.num_touched(depth) != 0; ++depth) {
    const GroupList groups = frontier.groups(depth);
    team.lead([&] { frontier.begin_step(depth, team.now_ns()); });
    team.loop(groups.count, [&](const auto& ranges) {
      auto tasks = team.appender(frontier.task_bag(depth));
      const EnterNothing nothing;
      Arrivals<Mask> arrivals(state, depth);
      StepCounts counts;
      ranges([&](int64_t first, int64_t last) {
        arrivals.settle(graph, groups, first, last);
        collect(graph, frontier, groups, first, last, nothing, tasks, counts);
      });
      arrivals.add_to_control();
      counts.add_to(frontier, depth);
    });

    // Where no vertex lacks a source no edge finds another.
    const bool done = atomic_load(control.full) == graph.num_vertices;
    const int64_t num_tasks = done ? 0 : frontier.num_tasks(depth);
    const bool pulls = !done && incoming != nullptr && MsDirection::pulls(*incoming, state, depth, seen_before);
    seen_before = atomic_load(control.seen_edges);
    team.lead([&] {
      frontier.begin_visit(depth, num_tasks, team.now_ns());
      control.found[(depth + 1) & 1] = 0;
    });
    if (pulls) {
      pull_level(team, *incoming, state, depth);
      continue;
    }
    team.take(num_tasks, [&](const auto& items) {
      auto touched = team.appender(frontier.touched_bag(depth));
      const MsPush<Mask, decltype(touched)> push{state, touched};
      StepCounts counts;
      items([&](int64_t i) { visit(graph, frontier, frontier.tasks[i], push, counts); });
      counts.add_to(frontier, depth);
    });
  }
  team.lead([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland
