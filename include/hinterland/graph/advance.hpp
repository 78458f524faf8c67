// One step of a traversal, for a frontier that is a bitmap (advance, in the words of Gunrock: Wang et al., PPoPP 2016). The
// push form collects the frontier's vertices into tasks of about the same number of edges, and visits these; the pull form has
// every group of vertices look through the lists of in-neighbours.
//
// What an algorithm does is a few functions of small values, one of which each thread makes for itself:
//   enter(vertex)                                  as a vertex enters the frontier
//   enter.group(group, word)                       the same, for all of a group's vertices at once
//   enter.before(first, last)                      before groups [first, last) of the list are collected
//   visitor(batch)                                 edges from the frontier (visit.hpp)
//   visitor.run(graph, vertex, piece, counts)      the same, a piece of a plain list at once, for a warp of one lane
//   visitor.end_task()                             after a task
//   enter.finish(), visitor.finish()               at a thread's end
// All lanes of a warp call them together, but for the first two; only enter(vertex) and visitor(batch) have to be there.
#pragma once

#include "hinterland/graph/ahead.hpp"

namespace hinterland::graph {

template <class Enter>
HINTERLAND_FN void call_before(Enter& enter, int64_t first, int64_t last) {
  if constexpr (requires { enter.before(first, last); }) enter.before(first, last);
}
template <class Visitor>
HINTERLAND_FN void call_end_task(Visitor& visitor) {
  if constexpr (requires { visitor.end_task(); }) visitor.end_task();
}
template <class Hooks>
HINTERLAND_FN void call_finish(Hooks& hooks) {
  if constexpr (requires { hooks.finish(); }) hooks.finish();
}

// The tasks of step `step`: the lists of the marked vertices in some groups. entering() makes an enter.
template <class Team, class Graph, class Entering>
HINTERLAND_FN void collect_groups(Team& team, const Graph& graph, const Frontier& frontier, int64_t step,
                                  const GroupList& groups, const Entering& entering) {
  team.static_for(groups.count, [&](const auto& ranges) {
    auto tasks = team.appender(frontier.task_queue(step));
    auto enter = entering();
    CountsOf<Graph> counts;
    ranges([&](int64_t first, int64_t last) {
      call_before(enter, first, last);
      collect(graph, frontier, groups, first, last, enter, tasks, counts);
    });
    call_finish(enter);
    counts.add_to(frontier, step);
  });
}

// Visits the edges of the tasks that were collected. visiting(touched) makes a visitor, which marks vertices through `touched`.
template <class Team, class Graph, class Visiting>
HINTERLAND_FN void visit_tasks(Team& team, const Graph& graph, const Frontier& frontier, int64_t step, int64_t num_tasks,
                               const Visiting& visiting) {
  team.dynamic_for(num_tasks, [&](const auto& items) {
    auto touched = team.appender(frontier.touched_queue(step));
    auto visitor = visiting(touched);
    CountsOf<Graph> counts;
    Ahead<Graph> ahead(graph);
    const WarpsAhead<Graph> warps_ahead(graph, team);
    const auto ask = [&](int64_t task) { return ask_for_task(graph, frontier, frontier.tasks[task]); };
    items([&](int64_t i) {
      ahead(i, num_tasks, ask);
      warps_ahead.for_others(i, num_tasks, ask);
      visit(graph, frontier, frontier.tasks[i], visitor, counts);
      call_end_task(visitor);
    });
    call_finish(visitor);
    counts.add_to(frontier, step);
  });
}

// A step that pushes, for which begin_step() has been called.
template <class Team, class Graph, class Entering, class Visiting>
HINTERLAND_FN void advance(Team& team, const Graph& graph, const Frontier& frontier, int64_t step, const GroupList& groups,
                           const Entering& entering, const Visiting& visiting) {
  collect_groups(team, graph, frontier, step, groups, entering);
  const int64_t num_tasks = frontier.num_tasks(step);
  team.single([&] { frontier.begin_visit(step, num_tasks, team.now_ns()); });
  visit_tasks(team, graph, frontier, step, num_tasks, visiting);
}

// The beginning of a run whose step 0 needs no frontier.
template <class Team>
HINTERLAND_FN void begin_first_step(Team& team, const Frontier& frontier) {
  team.single([&] {
    frontier.begin();
    frontier.begin_step(0, team.now_ns());
  });
  team.wait();  // nothing is reported before that
}

// body(vertex, there, counts) as for_each_vertex() calls it, where it reads the first `most` elements of the vertex's list.
template <class Team, class Graph, class Body>
HINTERLAND_FN void for_each_list(Team& team, const Graph& graph, const Frontier& frontier, int64_t step,
                                 [[maybe_unused]] int64_t most, const Body& body) {
  team.static_for(frontier.num_groups, [&](const auto& ranges) {
    CountsOf<Graph> counts;
    Ahead<Graph> ahead(graph);
    const WarpsAhead<Graph> warps_ahead(graph, team);
    const auto ask = [&](int64_t group) { return ask_for_group(graph, group, ~0u, most); };
    const auto looking_ahead = [&](const auto& each) {
      ranges([&](int64_t first, int64_t last) {
        for (int64_t group = first; group < last; ++group) {
          ahead(group, frontier.num_groups, ask);
          warps_ahead.for_itself(group, last, ask);
          each(group, group + 1);
        }
      });
    };
    for_each_vertex_of(looking_ahead, frontier, [&](int64_t vertex, bool there) { body(vertex, there, counts); });
    counts.add_to(frontier, step);
  });
}

inline constexpr int kPullGroups = 8;  // that a warp takes at once: docs/notes/thresholds.md

// The edges of a part of a vertex' list, of those after the prefixes. Its offsets were looked at when it was cut; should they
// have changed, it is still some edges.
template <class Graph>
HINTERLAND_FN Piece part_of(const Graph& graph, const Task& task) {
  const Piece list = graph.offsets.list_alone(task.vertex());
  const int64_t begin = max_of(list.begin, int64_t{0}) + graph.prefix_length + task.part() * kTaskEdges;
  return {begin, min_of(begin + kTaskEdges, min_of(list.end, graph.num_edges))};
}

// A step that pulls from `graph`: puller.group(group, touched, parts, counts) for every group, then puller.part(task, touched,
// counts) for the parts of long lists that this has left in `parts`. puller.lacking(group): the group's vertices that will look
// for something.
template <class Team, class Graph, class Puller>
HINTERLAND_FN void advance_pull(Team& team, const Graph& graph, const Frontier& frontier, int64_t step, const Puller& puller) {
  team.single([&] { frontier.record(step).pulled = 1; });
  team.dynamic_for(ceil_div<int64_t>(frontier.num_groups, kPullGroups), [&](const auto& items) {
    auto touched = team.appender(frontier.touched_queue(step));
    auto parts = team.appender(frontier.part_queue(step));
    CountsOf<Graph> counts;
    Ahead<Graph> ahead(graph);
    const WarpsAhead<Graph> warps_ahead(graph, team);
    const auto ask = [&](int64_t group) { return ask_for_group(graph, group, puller.lacking(group), kLookedThrough); };
    const auto ask_for_all = [&](int64_t i) {
      int64_t begun = 0;
      for (int64_t group = i * kPullGroups; group < min_of((i + 1) * kPullGroups, frontier.num_groups); ++group)
        begun += ask(group);
      return begun;
    };
    items([&](int64_t i) {
      ahead(i, ceil_div<int64_t>(frontier.num_groups, kPullGroups), ask_for_all);
      const int64_t end = min_of((i + 1) * kPullGroups, frontier.num_groups);
      for (int64_t group = i * kPullGroups; group < end; ++group) {
        warps_ahead.for_itself(group, end, ask);
        puller.group(group, touched, parts, counts);
      }
    });
    counts.add_to(frontier, step);
  });
  const int64_t num_parts = frontier.num_parts(step);
  if (num_parts == 0) return;
  team.dynamic_for(num_parts, [&](const auto& items) {
    auto touched = team.appender(frontier.touched_queue(step));
    CountsOf<Graph> counts;
    Ahead<Graph> ahead(graph);
    items([&](int64_t i) {
      ahead(i, num_parts, [&](int64_t part) { return ask_for_part(graph, frontier.tasks[part]); });
      puller.part(frontier.tasks[i], touched, counts);
    });
    counts.add_to(frontier, step);
  });
}

// Marks the vertices of groups [first, last) of a list for which holds(vertex), so that they are collected.
template <class Holds>
HINTERLAND_FN void mark_where(const Frontier& frontier, const GroupList& groups, int64_t first, int64_t last,
                              const Holds& holds) {
  for (int turn = 0; turn < last - first; ++turn) {
    const int64_t group = groups[first + turn];
    const uint32_t word = those_of(group, frontier.num_vertices, holds);
    if (Warp::lane() == turn) frontier.next[group] = word;  // the lane that collects this group
  }
}

// An enter that marks the vertices for which holds(vertex) first, and does nothing more.
template <class Holds>
struct EnterWhere {
  const Frontier& frontier;
  GroupList groups;
  const Holds& holds;

  HINTERLAND_FN void before(int64_t first, int64_t last) const { mark_where(frontier, groups, first, last, holds); }
  HINTERLAND_FN void operator()(int64_t) const {}
};

// entering() for the vertices in `groups` for which holds(vertex).
template <class Holds>
HINTERLAND_FN auto where(const Frontier& frontier, const GroupList& groups, const Holds& holds) {
  return [=, &frontier, &holds] { return EnterWhere<Holds>{frontier, groups, holds}; };
}

// A run that is one step: the lists of all vertices for which holds(vertex).
template <class Team, class Graph, class Holds, class Visiting>
HINTERLAND_FN void visit_lists(Team& team, const Graph& graph, const Frontier& frontier, const Holds& holds,
                               const Visiting& visiting) {
  begin_first_step(team, frontier);
  const GroupList all = frontier.all_groups();
  advance(team, graph, frontier, 0, all, where(frontier, all, holds), visiting);
  team.single([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland::graph
