// Breadth-first search with deterministic parents, top-down and bottom-up (Beamer, Asanovic and Patterson, "Direction-
// optimizing breadth-first search", SC 2012).
//
// A level is expanded in one of two directions.
//   push: the edges (u, v) out of the frontier are visited. Edges to visited vertices are dropped by a bitmap that stays in the
//         L2 cache; for the others parent[v] becomes min(parent[v], u), and whoever finds it unset discovers v.
//   pull: each unvisited vertex looks through its in-neighbours for the first that is in the frontier. Most find one among
//         the first few, which a GPU keeps in its own memory (`heads`), so that few lists are read where the edges lie.
// Lists ascend where pull is used, so both find the same parent: the smallest-numbered neighbour in the level before. Levels
// and parents are the same for any direction, any number of threads, on any processor.
//
// `visited` does not change while a level is expanded; that is why collect is a loop of its own.
#pragma once

#include "hinterland/graph/visit.hpp"

namespace hinterland {

// The search's memory besides parents and levels: one block, of which the first `zeroed` bytes must be zero at the start.
struct BfsLayout {
  int64_t visited, zeroed, bytes;
  FrontierLayout frontier;

  HINTERLAND_FN BfsLayout(int64_t num_vertices, int64_t num_edges, Layout layout = {})
      : visited(layout.take<uint32_t>(ceil_div<int64_t>(num_vertices, kGroup))),
        frontier(num_vertices, num_edges, layout) {
    zeroed = frontier.zeroed;
    bytes = frontier.bytes;
  }
};

// Id is unsigned: an unset parent is its largest value, which as a signed number reads -1.
template <class Id>
struct BfsState {
  static constexpr Id kUnset = stdlib::numeric_limits<Id>::max();

  Id* parents;
  int32_t* levels;
  uint32_t* visited;  // one bit a vertex: in the frontier or in a level before it
  Frontier frontier;

  HINTERLAND_FN BfsState(Id* parents, int32_t* levels, char* scratch, const BfsLayout& at, int64_t num_vertices)
      : parents(parents),
        levels(levels),
        visited(reinterpret_cast<uint32_t*>(scratch + at.visited)),
        frontier(scratch, at.frontier, num_vertices) {}

  HINTERLAND_FN void begin_at(int64_t source) const {
    frontier.begin();
    parents[source] = static_cast<Id>(source);
    frontier.start(source);
  }
};

// What a vertex gets as it enters the frontier.
template <class Id>
struct EnterLevel {
  const BfsState<Id>& state;
  int32_t depth;

  HINTERLAND_FN void operator()(int64_t vertex) const { state.levels[vertex] = depth; }
  HINTERLAND_FN void group(int64_t group, uint32_t word) const { state.visited[group] |= word; }
};

// Push: lowers the parents of unvisited neighbours.
template <class Id, class Touched>
struct Push {
  const BfsState<Id>& state;
  Touched& touched;

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) const {
    uint32_t seen[Batch::kSize];
    Id before[Batch::kSize];  // parent before this visit; 0, which no vertex is less than, where there is none to make
    for (int k = 0; k < Batch::kSize; ++k)
      seen[k] = batch.from[k] < 0 ? 1 : state.visited[group_of(batch.to[k])] & bit_of(batch.to[k]);
    for (int k = 0; k < Batch::kSize; ++k) before[k] = seen[k] ? 0 : atomic_load(state.parents[batch.to[k]]);
    for (int k = 0; k < Batch::kSize; ++k) {
      const Id parent = static_cast<Id>(batch.from[k]);
      before[k] = before[k] > parent ? atomic_min(state.parents[batch.to[k]], parent) : 0;
    }
    for (int k = 0; k < Batch::kSize; ++k)
      if (before[k] == BfsState<Id>::kUnset) state.frontier.mark(batch.to[k], touched);
  }
};

// Pull: the unvisited vertices of a group look for parents. `long_lists` takes those whose lists are shared by many warps.
template <class Graph, class Id, class Touched, class Tasks>
HINTERLAND_FN void pull(const Graph& incoming, const BfsState<Id>& state, int64_t group, Touched& touched, Tasks& long_lists,
                        StepCounts& counts) {
  const uint32_t* current = state.frontier.current;
  const auto in_frontier = [&](int64_t u) { return (current[group_of(u)] & bit_of(u)) != 0; };
  const uint32_t unvisited = ~state.visited[group];
  uint32_t found = 0;
  for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
    const int64_t base = group * kGroup + sub, own = base + Warp::lane();
    const bool looks = (unvisited >> (sub + Warp::lane()) & 1u) && incoming.has(own);
    int64_t parent = -1;
    bool undecided = looks;
    for (int64_t j = 0; j < incoming.heads_per_vertex && undecided; ++j) {
      const int64_t u = incoming.heads[j * incoming.num_vertices + own];
      if (u >= 0 && in_frontier(u)) parent = u;
      undecided = u >= 0 && parent < 0;
    }
    const ListBounds list(incoming, own, undecided, counts);
    const int64_t from = min_of(list.begin + incoming.heads_per_vertex, list.end);
    const bool is_long = list.end - from > kTaskEdges;
    long_lists.append(is_long ? ceil_div<int64_t>(list.end - from, kTaskEdges) : 0,
                      [&](int64_t k) { return Task{own, from + k * kTaskEdges}; });
    uint32_t searching = Warp::ballot(from < list.end && !is_long);
    while (searching != 0) {
      const int lane = stdlib::countr_zero(searching);
      searching &= searching - 1;
      const int64_t u = find_neighbor(incoming, base + lane, Warp::broadcast(from, lane), Warp::broadcast(list.end, lane),
                                      in_frontier, counts);
      if (Warp::lane() == lane) parent = u;
    }
    if (parent >= 0) state.parents[own] = static_cast<Id>(parent);
    found |= Warp::ballot(parent >= 0) << sub;
  }
  if (found != 0 && Warp::lane() == 0) {
    state.frontier.next[group] = found;
    touched.append(group);
  }
}

// Pull, for a part of a long list: task.group is a vertex, task.first_chunk a position.
template <class Graph, class Id, class Touched>
HINTERLAND_FN void pull_part(const Graph& incoming, const BfsState<Id>& state, const Task& task, Touched& touched,
                             StepCounts& counts) {
  const uint32_t* current = state.frontier.current;
  const int64_t end = min_of(task.first_chunk + kTaskEdges, incoming.offsets[task.group + 1]);
  const int64_t u = find_neighbor(incoming, task.group, task.first_chunk, end,
                                  [&](int64_t v) { return (current[group_of(v)] & bit_of(v)) != 0; }, counts);
  if (u < 0 || Warp::lane() != 0) return;
  if (atomic_min(state.parents[task.group], static_cast<Id>(u)) == BfsState<Id>::kUnset)
    state.frontier.mark(task.group, touched);
}

// Whether pulling level `depth` is likely to read less than pushing it. An unvisited vertex has no neighbour in the levels
// before, so each of its neighbours is in the frontier with the share that the frontier's edges have in those left.
struct Direction {
  static constexpr double kListCost = 16;  // reading a list costs as much as so many more edges

  template <class Graph>
  HINTERLAND_FN static bool pulls(const Graph& incoming, const Frontier& frontier, int64_t depth) {
    const StepRecord& now = frontier.record(depth);
    const double pushed = static_cast<double>(atomic_load(now.edges)), in_frontier = static_cast<double>(atomic_load(now.vertices));
    const double left = max_of(0.0, static_cast<double>(incoming.num_edges - atomic_load(frontier.control->explored)));
    const double unvisited = max_of(0.0, static_cast<double>(incoming.num_vertices - incoming.num_isolated -
                                                            atomic_load(frontier.control->reached)));
    const double share = pushed / max_of(1.0, pushed + left);
    double searching = unvisited;  // those that find no parent among the heads
    for (int64_t j = 0; j < incoming.heads_per_vertex; ++j) searching *= 1 - share;
    const double examined = min_of(left * searching / max_of(1.0, unvisited), searching / max_of(share, 1e-9));
    // Looking at every group costs something even where nothing is found.
    const double scan = static_cast<double>(frontier.num_groups);
    return examined + kListCost * searching + scan < pushed + kListCost * in_frontier;
  }
};

// After a sparse collect: makes `current` valid everywhere.
template <class Team, class Id>
HINTERLAND_FN void spread(Team& team, const BfsState<Id>& state, const GroupList& groups, int32_t depth) {
  const Frontier& frontier = state.frontier;
  team.loop(frontier.num_groups, [&](const auto& ranges) {
    ranges([&](int64_t first, int64_t last) {
      if (first + Warp::lane() < last) frontier.current[first + Warp::lane()] = 0;
    });
  });
  team.loop(groups.count, [&](const auto& ranges) {
    ranges([&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
          const int64_t vertex = groups[i] * kGroup + sub + Warp::lane();
          const uint32_t word = Warp::ballot(vertex < frontier.num_vertices && state.levels[vertex] == depth) << sub;
          if (Warp::lane() == 0) frontier.current[groups[i]] |= word;
        }
    });
  });
}

inline constexpr int kPullGroups = 8;  // that a warp takes at once

template <class Team, class Graph, class Id>
HINTERLAND_FN void pull_level(Team& team, const Graph& incoming, const BfsState<Id>& state, int64_t depth) {
  const Frontier& frontier = state.frontier;
  team.lead([&] { frontier.record(depth).pulled = 1; });
  team.take(ceil_div<int64_t>(frontier.num_groups, kPullGroups), [&](const auto& items) {
    auto touched = team.appender(frontier.touched_bag(depth));
    auto parts = team.appender(frontier.part_bag(depth));
    StepCounts counts;
    items([&](int64_t i) {
      const int64_t end = min_of((i + 1) * kPullGroups, frontier.num_groups);
      for (int64_t group = i * kPullGroups; group < end; ++group)
        pull(incoming, state, group, touched, parts, counts);
    });
    counts.add_to(frontier, depth);
  });
  const int64_t num_parts = frontier.num_parts(depth);
  if (num_parts == 0) return;
  team.take(num_parts, [&](const auto& items) {
    auto touched = team.appender(frontier.touched_bag(depth));
    StepCounts counts;
    items([&](int64_t i) { pull_part(incoming, state, frontier.tasks[i], touched, counts); });
    counts.add_to(frontier, depth);
  });
}

// The search. `incoming` are the lists of in-neighbours, ascending, or null where it may only push.
template <class Team, class Graph, class Id>
HINTERLAND_FN void bfs(Team& team, const Graph& graph, const Graph* incoming, const BfsState<Id>& state, int64_t source) {
  const Frontier& frontier = state.frontier;
  team.lead([&] { state.begin_at(source); });
  team.wait();
  for (int64_t depth = 0; frontier.num_touched(depth) != 0; ++depth) {
    const GroupList groups = frontier.groups(depth);
    team.lead([&] { frontier.begin_collect(depth, team.now_ns()); });
    team.loop(groups.count, [&](const auto& ranges) {
      auto tasks = team.appender(frontier.task_bag(depth));
      EnterLevel<Id> enter{state, static_cast<int32_t>(depth)};
      StepCounts counts;
      ranges([&](int64_t first, int64_t last) { collect(graph, frontier, groups, first, last, enter, tasks, counts); });
      counts.add_to(frontier, depth);
    });

    // Where every vertex has its level no edge finds another.
    const bool done = atomic_load(frontier.control->reached) == graph.num_vertices;
    const int64_t num_tasks = done ? 0 : frontier.num_tasks(depth);
    const bool pulls = !done && incoming != nullptr && Direction::pulls(*incoming, frontier, depth);
    team.lead([&] { frontier.begin_visit(depth, num_tasks, team.now_ns()); });
    if (pulls) {
      if (!groups.all()) spread(team, state, groups, static_cast<int32_t>(depth));
      pull_level(team, *incoming, state, depth);
      continue;
    }
    team.take(num_tasks, [&](const auto& items) {
      auto touched = team.appender(frontier.touched_bag(depth));
      Push<Id, decltype(touched)> push{state, touched};
      StepCounts counts;
      items([&](int64_t i) { visit(graph, frontier, frontier.tasks[i], push, counts); });
      counts.add_to(frontier, depth);
    });
  }
  team.lead([&] { frontier.control->end_ns = team.now_ns(); });
}

}  // namespace hinterland
