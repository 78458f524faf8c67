// Betweenness centrality (Brandes, "A faster algorithm for betweenness centrality", 2001): what one source adds to it.
//
//   forward:  breadth-first levels, and sigma[v], the number of shortest paths from the source to v;
//   backward: from the deepest level on, the sum over the out-neighbours v one level further than u of
//                 (1 + delta[v]) / sigma[v],  which times sigma[u] is delta[u], the source's share in u's centrality.
//
// Kept is  c[v] = (1 + delta[v]) / sigma[v] = 1 / sigma[v] + the sum for v.  It begins as 1 / sigma[v] when v's level is known,
// and the backward pass only adds c to c: a vertex whose list many warps share needs no second pass over its parts.
//
// Both passes read the lists of a level's vertices, so the transposed graph is not needed. In an undirected graph a CPU may
// read the lists at the other end of the same edges, where these are fewer: forward those of all vertices without a level,
// which look for neighbours in the frontier (Beamer, Asanovic and Patterson, "Direction-optimizing breadth-first search",
// 2012), and backward those of the level below, which add to the one above. Path counts are doubles: exact, and so the same in
// any order of addition, up to 2^53. Sums depend on the order in their last bits.
#pragma once

#include "hinterland/core/thresholds.hpp"
#include "hinterland/graph/sum_over_lists.hpp"

namespace hinterland::graph {

// What a source's run is given.
struct BcParams {
  const GraphWords* graph;
  int64_t source;
  int64_t undirected;  // every edge is there in both directions
  int32_t* levels;     // [vertices], all -1
  double* sigma;       // [vertices], all 0: shortest paths from the source
  double* scores;      // [vertices], added to
  int64_t keeps;  // levels and sigma are left as they are found, and scores are c: what edges have of the paths follows from it
  char* scratch;  // that of a BcState
  int64_t history_size;
};

struct BcState {
  Scratch scratch;
  int32_t* levels;  // -1: not reached yet
  double* sigma;    // 0 likewise
  double* scores;   // of all sources so far
  bool keeps;
  int64_t* overflow;  // 1 if there were more paths than a double counts
  Frontier frontier;
  double* c;
  uint32_t* history;  // in which groups the vertices of each level lie, for the way back: at most `history_size` numbers
  int64_t history_size;

  HINTERLAND_FN BcState(const BcParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        levels(p.levels),
        sigma(p.sigma),
        scores(p.scores),
        keeps(p.keeps != 0),
        overflow(scratch.take<int64_t>(1)),
        frontier(scratch, num_vertices, num_edges),
        c(scratch.take<double>(num_vertices)),
        history(scratch.take<uint32_t>(p.history_size)),
        history_size(p.history_size) {}
};

// What a vertex gets as it enters the frontier on the way forward: all paths to it have been counted.
struct EnterPaths {
  const BcState& state;
  int32_t depth;

  HINTERLAND_FN void operator()(int64_t vertex) const {
    state.levels[vertex] = depth;
    state.c[vertex] = 1 / state.sigma[vertex];
  }
};

// Forward: every path to u goes on to the neighbours that have no level yet.
template <class Touched>
struct CountPaths {
  const BcState& state;
  Touched& touched;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) const {
    double paths[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k)
      paths[k] = batch.from[k] >= 0 && state.levels[batch.to[k]] < 0 ? state.sigma[batch.from[k]] : 0;
    for (int k = 0; k < Batch::kSize; ++k)
      if (paths[k] != 0) atomic_add(state.sigma[batch.to[k]], paths[k]);
    for (int k = 0; k < Batch::kSize; ++k) {
      const int64_t v = batch.to[k];
      if (paths[k] != 0 && !(atomic_load(state.frontier.next[group_of(v)]) & bit_of(v))) state.frontier.mark(v, touched);
    }
  }
};

// Forward, where a warp is one lane: vertices without a level look for all their neighbours in the frontier.
template <class Graph>
struct PullPaths {
  const Graph& graph;
  const BcState& state;
  int32_t depth;

  struct InFrontier {
    const BcState& state;
    int32_t depth;
    HINTERLAND_FN double operator[](int64_t vertex) const { return state.levels[vertex] == depth ? state.sigma[vertex] : 0; }
  };

  HINTERLAND_FN uint32_t lacking(int64_t group) const {
    return those_of(group, graph.num_vertices, [&](int64_t v) { return state.levels[v] < 0; });
  }

  template <class Touched, class Parts, class Counts>
  HINTERLAND_FN void group(int64_t group, Touched& touched, Parts&, Counts& counts) const {
    uint32_t found = 0;
    const int64_t end = min_of((group + 1) * kGroup, graph.num_vertices);
    for (int64_t vertex = group * kGroup; vertex < end; ++vertex) {
      if (state.levels[vertex] >= 0) continue;
      const ListBounds list(graph, vertex, true, counts);
      const double paths = sum_over_list(graph, vertex, list, InFrontier{state, depth}, counts);
      if (paths == 0) continue;
      state.sigma[vertex] = paths;
      found |= bit_of(vertex);
    }
    if (found == 0) return;
    state.frontier.next[group] = found;
    touched.append(group);
  }
  template <class Touched, class Counts>
  HINTERLAND_FN void part(const Task&, Touched&, Counts&) const {}  // lists are not cut
};

// Whether reading `far` edges at the other ends, and looking at all vertices, costs less than reading `near` edges.
HINTERLAND_FN bool is_cheaper(int64_t far, int64_t near, int64_t num_vertices) {
  return far + num_vertices / kVerticesOfEdge < near;
}

// What a vertex of a level gets from a neighbour: something from the next level alone.
struct FromNextLevel {
  const BcState& state;
  int32_t depth;
  HINTERLAND_FN double operator[](int64_t vertex) const { return state.levels[vertex] == depth + 1 ? state.c[vertex] : 0; }
};

// Backward from the other end: v adds to its neighbours one level up.
struct GiveDependencies {
  const BcState& state;
  int32_t depth;  // of the neighbours

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) const {
    for (int k = 0; k < Batch::kSize; ++k)
      if (batch.from[k] >= 0 && state.levels[batch.to[k]] == depth) atomic_add(state.c[batch.to[k]], state.c[batch.from[k]]);
  }
};

// Backward, where a warp has many lanes: u gathers from its neighbours one level further. The elements of one list follow each
// other, so a warp sums them by shuffles, and one lane adds the sum to memory.
struct GatherDependencies {
  const BcState& state;
  int32_t depth;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) const {
    double value[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k)
      value[k] = batch.from[k] >= 0 && state.levels[batch.to[k]] == depth + 1 ? state.c[batch.to[k]] : 0;
    for (int k = 1; k < Batch::kSize; ++k)
      if (batch.from[k] == batch.from[k - 1]) value[k] += value[k - 1], value[k - 1] = 0;
    for (int k = 0; k < Batch::kSize; ++k) {
      if (!Warp::any(value[k] != 0)) continue;
      const int64_t own = batch.from[k];
      double sum = value[k];
      for (int step = 1; step < Warp::kWidth; step *= 2) {
        const int there = min_of(Warp::lane() + step, Warp::kWidth - 1);
        const int64_t owner = Warp::broadcast(own, there);
        const double further = Warp::broadcast(sum, there);
        if (Warp::lane() + step < Warp::kWidth && owner == own) sum += further;
      }
      const int64_t before = Warp::broadcast(own, max_of(Warp::lane() - 1, 0));
      if ((Warp::lane() == 0 || before != own) && sum != 0) atomic_add(state.c[own], sum);
    }
  }
};

// The groups of the levels, as they come up on the way forward and again, in reverse, on the way back. Only the first levels
// may have room in the history; where a level has none, and where it has vertices almost everywhere, all groups are gone
// through. All threads keep the same copy.
class Trail {
 public:
  HINTERLAND_FN explicit Trail(const BcState& state) : state_(state) {}

  // Remembers a level. The team's next loop must come before back().
  template <class Team>
  HINTERLAND_FN void add(Team& team, const GroupList& groups) {
    const int64_t kept = groups.all() ? 0 : groups.count;
    if (kept_ < levels_++ || end_ + kept + 1 > state_.history_size) return;
    ++kept_;
    uint32_t* to = state_.history + end_;
    for_each(team, kept, [&](int64_t i) { to[i] = static_cast<uint32_t>(groups[i]); });
    team.single([&] { to[kept] = groups.all() ? kAll : static_cast<uint32_t>(kept); });
    end_ += kept + 1;
  }

  // The groups of the last level that back() has not been asked for, in the frontier's list. Follows a wait.
  template <class Team>
  HINTERLAND_FN GroupList back(Team& team) {
    if (--levels_ >= kept_) return state_.frontier.all_groups();
    --kept_;
    const uint32_t count = atomic_load(state_.history[--end_]);
    if (count == kAll) return state_.frontier.all_groups();
    end_ -= count;
    const uint32_t* from = state_.history + end_;
    for_each(team, count, [&](int64_t i) { state_.frontier.touched[i] = from[i]; });
    return {state_.frontier.touched, count};
  }

 private:
  static constexpr uint32_t kAll = stdlib::numeric_limits<uint32_t>::max();

  const BcState& state_;
  int64_t levels_ = 0, kept_ = 0, end_ = 0;
};

// One source's share is added to the scores. Levels and sigma end as they began, at -1 and 0, unless they are kept: an edge (u,
// v) whose v lies one level further has sigma[u] c[v] of the source's paths.
template <class Team, class Graph>
HINTERLAND_FN void betweenness(Team& team, const Graph& graph, const BcState& state, int64_t source, bool undirected) {
  const Frontier& frontier = state.frontier;
  Trail trail(state);
  team.single([&] {
    frontier.begin();
    frontier.start(source);
    state.sigma[source] = 1;
  });
  team.wait();

  int64_t depth = 0;
  for (; frontier.num_touched(depth) != 0; ++depth) {
    const GroupList groups = frontier.groups(depth);
    team.single([&] { frontier.begin_step(depth, team.now_ns()); });
    trail.add(team, groups);
    collect_groups(team, graph, frontier, depth, groups, [&] { return EnterPaths{state, static_cast<int32_t>(depth)}; });
    // Where every vertex has its level no edge leads to another.
    const bool done = frontier.reached(depth) == graph.num_vertices;
    const int64_t num_tasks = done ? 0 : frontier.num_tasks(depth), edges = frontier.edges(depth);
    team.single([&] { frontier.begin_visit(depth, num_tasks, team.now_ns()); });
    if constexpr (Warp::kWidth == 1)
      if (undirected && !done && is_cheaper(graph.num_edges - frontier.explored(depth), edges, graph.num_vertices)) {
        advance_pull(team, graph, frontier, depth, PullPaths<Graph>{graph, state, static_cast<int32_t>(depth)});
        continue;
      }
    visit_tasks(team, graph, frontier, depth, num_tasks,
                [&]<class Touched>(Touched& touched) { return CountPaths<Touched>{state, touched}; });
  }

  // The deepest level has nobody to gather from, and the source is not between itself and others. Steps go on being numbered.
  const int64_t deepest = depth - 1;
  GroupList groups = trail.back(team);
  for (int64_t level = deepest - 1; level > 0; --level, ++depth) {
    team.single([&] { frontier.begin_step(depth, team.now_ns()); });
    const int32_t own = static_cast<int32_t>(level);
    if constexpr (Warp::kWidth == 1) {
      const int64_t below = frontier.record(level + 1).edges, edges = frontier.record(level).edges;
      if (undirected && level + 1 < kStepRecords && is_cheaper(below, edges, graph.num_vertices)) {
        const auto in_next = [&](int64_t vertex) { return state.levels[vertex] == level + 1; };
        advance(team, graph, frontier, depth, groups, where(frontier, groups, in_next),
                [&](auto&) { return GiveDependencies{state, own}; });
        groups = trail.back(team);
        continue;
      }
    }
    groups = trail.back(team);
    const auto in_level = [&](int64_t vertex) { return state.levels[vertex] == level; };
    advance(team, graph, frontier, depth, groups, where(frontier, groups, in_level), [&](auto&) {
      if constexpr (Warp::kWidth == 1)
        return SumOverLists<double, FromNextLevel>({state, own}, state.c);
      else
        return GatherDependencies{state, own};
    });
  }

  team.static_for(frontier.num_groups, [&](const auto& ranges) {
    ranges([&](int64_t first, int64_t last) {
      for (int64_t group = first; group < last; ++group)
        for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
          const int64_t v = group * kGroup + sub + Warp::lane();
          if (!graph.has(v) || state.levels[v] < 0) continue;
          const double paths = state.sigma[v];
          if (paths > stdlib::numeric_limits<double>::max()) atomic_store(*state.overflow, int64_t{1});
          if (state.keeps) {
            state.scores[v] = state.c[v];
            continue;
          }
          if (v != source) state.scores[v] += paths * (state.c[v] - 1 / paths);
          state.levels[v] = -1;
          state.sigma[v] = 0;
        }
    });
  });
  team.single([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland::graph
