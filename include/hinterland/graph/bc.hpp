// Betweenness centrality (Brandes, "A faster algorithm for betweenness centrality", 2001): what one source adds to it.
//
//   forward:  breadth-first levels, and sigma[v], the number of shortest paths from the source to v;
//   backward: from the deepest level on, the sum over the out-neighbours v one level further than u of
//                 (1 + delta[v]) / sigma[v],  which times sigma[u] is delta[u], the source's share in u's centrality.
//
// Kept is  c[v] = (1 + delta[v]) / sigma[v] = 1 / sigma[v] + the sum for v.  It begins as 1 / sigma[v] when v's level is known,
// and the backward pass only adds c to c: a vertex whose list many warps share needs no second pass over its parts.
//
// Both passes read the lists of a level's vertices, so the transposed graph is not needed. Path counts are doubles: exact, and so
// the same in any order of addition, up to 2^53. Sums depend on the order in their last bits.
#pragma once

#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

// What a source's run is given.
struct BcParams {
  const GraphWords* graph;
  int64_t source;
  int32_t* levels;  // [vertices], all -1
  double* sigma;    // [vertices], all 0: shortest paths from the source
  double* scores;   // [vertices], added to
  char* scratch;    // that of a BcState
  int64_t history_size;
};

struct BcState {
  Scratch scratch;
  int32_t* levels;    // -1: not reached yet
  double* sigma;      // 0 likewise
  double* scores;     // of all sources so far
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

// Backward: u gathers from its neighbours one level further. The elements of one list follow each other, so a warp sums them by
// shuffles, and one lane adds the sum to memory.
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

// The groups of the levels, as they come up on the way forward and again, in reverse, on the way back. Only the first levels may
// have room in the history; where a level has none, and where it has vertices almost everywhere, all groups are gone through.
// All threads keep the same copy.
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

// One source's share is added to the scores. Levels and sigma end as they began, at -1 and 0.
template <class Team, class Graph>
HINTERLAND_FN void betweenness(Team& team, const Graph& graph, const BcState& state, int64_t source) {
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
    const int64_t num_tasks = done ? 0 : frontier.num_tasks(depth);
    team.single([&] { frontier.begin_visit(depth, num_tasks, team.now_ns()); });
    visit_tasks(team, graph, frontier, depth, num_tasks,
                [&]<class Touched>(Touched& touched) { return CountPaths<Touched>{state, touched}; });
  }

  // The deepest level has nobody to gather from, and the source is not between itself and others. Steps go on being numbered.
  const int64_t deepest = depth - 1;
  trail.back(team);
  for (int64_t level = deepest - 1; level > 0; --level, ++depth) {
    const GroupList groups = trail.back(team);
    team.single([&] { frontier.begin_step(depth, team.now_ns()); });
    const auto in_level = [&](int64_t vertex) { return state.levels[vertex] == level; };
    advance(team, graph, frontier, depth, groups, where(frontier, groups, in_level),
            [&](auto&) { return GatherDependencies{state, static_cast<int32_t>(level)}; });
  }

  team.static_for(frontier.num_groups, [&](const auto& ranges) {
    ranges([&](int64_t first, int64_t last) {
      for (int64_t group = first; group < last; ++group)
        for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
          const int64_t v = group * kGroup + sub + Warp::lane();
          if (!graph.has(v) || state.levels[v] < 0) continue;
          const double paths = state.sigma[v];
          if (paths > stdlib::numeric_limits<double>::max()) atomic_store(*state.overflow, int64_t{1});
          if (v != source) state.scores[v] += paths * (state.c[v] - 1 / paths);
          state.levels[v] = -1;
          state.sigma[v] = 0;
        }
    });
  });
  team.single([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland::graph
