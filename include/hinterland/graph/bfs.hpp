// Breadth-first search with deterministic parents, top-down and bottom-up (Beamer, Asanovic and Patterson, "Direction-
// optimizing breadth-first search", SC 2012).
//
// A level is expanded in one of two directions.
//   push: the edges (u, v) out of the frontier are visited. Edges to visited vertices are dropped by a bitmap that stays in the
//         L2 cache; for the others parent[v] becomes min(parent[v], u), and whoever finds it unset discovers v.
//   pull: each unvisited vertex looks through its in-neighbours for the first that is in the frontier. Most find one among
//         the first few, which a GPU keeps in its own memory (`adjacency_prefix`), so that few lists are read where the edges
// lie. Lists ascend where pull is used, so both find the same parent: the smallest-numbered neighbour in the level before.
// Levels and parents are the same for any direction, any number of threads, on any processor.
//
// A small level is a list of vertices, and one loop expands it. A large one is a bitmap (frontier.hpp) that is collected first;
// `visited` does not change while its edges are visited, and is valid in such levels only.
#pragma once

#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

// What a search is given. Graphs lie in memory that the processor addresses; ids are as wide as the instance's.
struct BfsParams {
  const GraphWords* graph;
  const GraphWords* incoming;  // lists of in-neighbours, ascending; null: only push
  int64_t source;
  void* parents;    // Id [vertices], all unset; on the CPU int64, of any content
  int32_t* levels;  // [vertices], all -1; on the CPU of any content
  char* scratch;    // that of a BfsState
};

// A level that is a list: its vertices, and the edges out of them.
struct SparseLevel {
  int64_t vertices, edges;
};

// Id is unsigned: an unset parent is its largest value, which as a signed number reads -1.
template <class Id>
struct BfsState {
  static constexpr Id kUnset = stdlib::numeric_limits<Id>::max();

  Scratch scratch;
  Id* parents;
  int32_t* levels;
  SparseLevel* sparse;  // of this level, the next, and the one after, being cleared
  uint32_t* visited;    // one bit a vertex: in the frontier or in a level before it
  Frontier frontier;

  HINTERLAND_FN BfsState(const BfsParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        parents(static_cast<Id*>(p.parents)),
        levels(p.levels),
        sparse(scratch.take<SparseLevel>(3)),
        visited(scratch.take<uint32_t>(ceil_div<int64_t>(num_vertices, kGroup))),
        frontier(scratch, num_vertices, num_edges) {}

  HINTERLAND_FN void begin_at(int64_t source) const {
    frontier.begin();
    parents[source] = static_cast<Id>(source);
    levels[source] = 0;
    list(true)[0] = static_cast<Id>(source);
    sparse[0].vertices = 1;
  }

  // Lists of vertices lie where bitmaps have their groups and tasks; of two that follow each other one is `first`.
  HINTERLAND_FN Id* list(bool first) const {
    return first ? reinterpret_cast<Id*>(frontier.touched) : reinterpret_cast<Id*>(frontier.tasks);
  }
  HINTERLAND_FN AppendQueue<Id> list_queue(int64_t depth, bool first) const {
    return {list(first), &sparse[depth % 3].vertices, frontier.num_groups};
  }
  // Parts of long lists of neighbours, in what the lists of vertices leave of the tasks.
  HINTERLAND_FN AppendQueue<Task> part_queue(int64_t depth) const {
    const int64_t used = ceil_div<int64_t>(frontier.num_groups * sizeof(Id), sizeof(Task));
    return {frontier.tasks + used, &frontier.control->num_parts[depth % 2], frontier.task_capacity - used};
  }
  HINTERLAND_FN bool is_short(int64_t vertices) const { return vertices <= frontier.num_groups / 4; }
  // Whether so many edges are few enough to push them without asking in which direction to go.
  HINTERLAND_FN static bool are_few(int64_t edges, int64_t of) { return edges <= max_of<int64_t>(of / 256, 1 << 16); }
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
    Id before[Batch::kSize];  // parent before this visit; 0, below which no vertex is, where the visit makes none
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

// Push from a list: a vertex is open until its level is known, and while that is the level being discovered.
template <class Graph, class Id, class Next>
struct PushSparse {
  const Graph& graph;
  const BfsState<Id>& state;
  int32_t level;  // of what is discovered
  Next& next;
  int64_t edges = 0;  // out of what this lane discovers

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) {
    int32_t known[Batch::kSize];
    Id before[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k) known[k] = batch.from[k] < 0 ? 0 : atomic_load(state.levels[batch.to[k]]);
    for (int k = 0; k < Batch::kSize; ++k) {
      const bool open = batch.from[k] >= 0 && (known[k] == -1 || known[k] == level);
      before[k] = open ? atomic_min(state.parents[batch.to[k]], static_cast<Id>(batch.from[k])) : 0;
    }
    int found = 0;
    Id discovered[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k) {
      if (before[k] != BfsState<Id>::kUnset) continue;
      atomic_store(state.levels[batch.to[k]], level);
      edges += graph.degree(batch.to[k]);
      discovered[found++] = static_cast<Id>(batch.to[k]);
    }
    next.append(found, [&](int64_t i) { return discovered[i]; });
  }

  HINTERLAND_FN void finish() const {
    const int64_t all = Warp::sum(edges);
    if (all != 0 && Warp::lane() == 0) atomic_add(state.sparse[level % 3].edges, all);
  }
};

// Pull, as advance_pull() asks for it.
template <class Graph, class Id>
struct PullParents {
  const Graph& incoming;
  const BfsState<Id>& state;

  HINTERLAND_FN uint32_t lacking(int64_t group) const { return ~state.visited[group]; }

  // The unvisited vertices of a group look for parents. `long_lists` takes those whose lists are shared by many warps.
  template <class Touched, class Tasks, class Counts>
  HINTERLAND_FN void group(int64_t group, Touched& touched, Tasks& long_lists, Counts& counts) const {
    const uint32_t* current = state.frontier.current;
    const auto in_frontier = [&](int64_t u) { return (current[group_of(u)] & bit_of(u)) != 0; };
    const uint32_t unvisited = ~state.visited[group];
    uint32_t found = 0;
    for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
      const int64_t base = group * kGroup + sub, own = base + Warp::lane();
      const bool looks = (unvisited >> (sub + Warp::lane()) & 1u) && incoming.has(own);
      int64_t parent = -1;
      bool undecided = looks;
      for (int64_t j = 0; j < incoming.prefix_length && undecided; ++j) {
        const int64_t u = incoming.prefix_neighbor(own, j);
        if (incoming.has(u) && in_frontier(u)) parent = u;
        undecided = incoming.has(u) && parent < 0;
      }
      const ListBounds list(incoming, own, undecided, counts);
      const int64_t from = min_of(list.begin + incoming.prefix_length, list.end);
      const bool is_long = list.end - from > kTaskEdges;
      long_lists.append(is_long ? ceil_div<int64_t>(list.end - from, kTaskEdges) : 0,
                        [&](int64_t k) { return Task::of(own, k); });
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

  // A part of a long list.
  template <class Touched, class Counts>
  HINTERLAND_FN void part(const Task& task, Touched& touched, Counts& counts) const {
    const uint32_t* current = state.frontier.current;
    const int64_t vertex = task.vertex();
    const Piece part = part_of(incoming, task);
    const int64_t u = find_neighbor(
        incoming, vertex, part.begin, part.end, [&](int64_t v) { return (current[group_of(v)] & bit_of(v)) != 0; }, counts);
    if (u < 0 || Warp::lane() != 0) return;
    if (atomic_min(state.parents[vertex], static_cast<Id>(u)) == BfsState<Id>::kUnset) state.frontier.mark(vertex, touched);
  }
};

// Whether pulling level `depth` is likely to read less than pushing it. An unvisited vertex has no neighbour in the levels
// before, so each of its neighbours is in the frontier with the share that the frontier's edges have in those left.
struct Direction {
  static constexpr double kListCost = 16;  // reading a list costs as much as so many more edges: docs/notes/thresholds.md

  template <class Graph>
  HINTERLAND_FN static bool pulls(const Graph& incoming, const Frontier& frontier, int64_t depth) {
    const double pushed = static_cast<double>(frontier.edges(depth)),
                 in_frontier = static_cast<double>(frontier.vertices(depth));
    const double left = max_of(0.0, static_cast<double>(incoming.num_edges - frontier.explored(depth)));
    const double unvisited =
        max_of(0.0, static_cast<double>(incoming.num_vertices - incoming.num_isolated - frontier.reached(depth)));
    const double share = pushed / max_of(1.0, pushed + left);
    double searching = unvisited;  // those that find no parent among the prefixes
    for (int64_t j = 0; j < incoming.prefix_length; ++j) searching *= 1 - share;
    const double examined = min_of(left * searching / max_of(1.0, unvisited), searching / max_of(share, 1e-9));
    // Looking at every group costs something even where nothing is found.
    const double scan = static_cast<double>(frontier.num_groups);
    return examined + kListCost * searching + scan < pushed + kListCost * in_frontier;
  }
};

// Expands a level that is a list of vertices, and lists the next.
template <class Team, class Graph, class Id>
HINTERLAND_FN void expand_sparse(Team& team, const Graph& graph, const BfsState<Id>& state, int64_t depth, bool first) {
  const Frontier& frontier = state.frontier;
  const Id* const list = state.list(first);
  const auto push_to = [&]<class Next>(Next& next) {
    return PushSparse<Graph, Id, Next>{graph, state, static_cast<int32_t>(depth + 1), next};
  };
  team.static_for(atomic_load(state.sparse[depth % 3].vertices), [&](const auto& ranges) {
    auto next = team.appender(state.list_queue(depth + 1, !first));
    auto parts = team.appender(state.part_queue(depth));
    auto push = push_to(next);
    CountsOf<Graph> counts;
    ranges([&](int64_t begin, int64_t end) {
      const bool has = begin + Warp::lane() < end;
      const int64_t vertex = has ? static_cast<int64_t>(list[begin + Warp::lane()]) : 0;
      auto own = lists_of(graph, vertex, has, counts);
      const bool is_long = own.length() > kTaskEdges;
      counts.vertices += has;
      counts.edges += own.length();
      parts.append(is_long ? ceil_div<int64_t>(own.most_chunks(), kTaskChunks) : 0,
                   [&](int64_t k) { return Task::of(vertex, k); });
      if (Warp::any(is_long)) own = lists_of(graph, vertex, has && !is_long, counts);
      visit_chunks(graph, own, vertex, 0, own.chunks, push, counts);
    });
    push.finish();
    counts.add_to(frontier, depth);
  });
  const AppendQueue<Task> parts = state.part_queue(depth);
  const int64_t num_parts = atomic_load(*parts.count);
  if (num_parts == 0) return;
  if (num_parts > parts.capacity) return frontier.report_bad(frontier.num_vertices);
  team.dynamic_for(num_parts, [&](const auto& items) {
    auto next = team.appender(state.list_queue(depth + 1, !first));
    auto push = push_to(next);
    CountsOf<Graph> counts;
    items([&](int64_t i) {
      const Task part = parts.items[i];
      const auto own = lists_of(graph, part.vertex(), Warp::lane() == 0, counts);
      const int64_t from = min_of(part.first_chunk(), own.chunks);
      visit_chunks(graph, own, part.vertex(), from, min_of(from + kTaskChunks, own.chunks), push, counts);
    });
    push.finish();
    counts.add_to(frontier, depth);
  });
}

// From a list to a bitmap, by the levels.
template <class Team, class Id>
HINTERLAND_FN void make_dense(Team& team, const BfsState<Id>& state, int64_t depth) {
  const Frontier& frontier = state.frontier;
  team.static_for(frontier.num_groups, [&](const auto& ranges) {
    ranges([&](int64_t first, int64_t last) {
      for (int64_t group = first; group < last; ++group) {
        uint32_t visited = 0, marked = 0;
        for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
          const int64_t vertex = group * kGroup + sub + Warp::lane();
          const int32_t level = vertex < frontier.num_vertices ? state.levels[vertex] : -1;
          visited |= Warp::ballot(level >= 0 && level < depth) << sub;
          marked |= Warp::ballot(level == depth) << sub;
        }
        if (Warp::lane() != 0) continue;
        state.visited[group] = visited;
        frontier.next[group] = marked;
      }
    });
  });
}

// From a bitmap to a list.
template <class Team, class Id>
HINTERLAND_FN void make_sparse(Team& team, const BfsState<Id>& state, int64_t depth) {
  const Frontier& frontier = state.frontier;
  team.static_for(frontier.num_touched(depth), [&](const auto& ranges) {
    auto list = team.appender(state.list_queue(depth, false));
    ranges([&](int64_t first, int64_t last) {
      const bool has = first + Warp::lane() < last;
      const int64_t group = has ? frontier.touched[first + Warp::lane()] : 0;
      uint32_t word = has ? frontier.next[group] : 0;
      if (has) frontier.next[group] = 0;
      list.append(stdlib::popcount(word), [&](int64_t) {
        const int64_t vertex = group * kGroup + stdlib::countr_zero(word);
        word &= word - 1;
        state.levels[vertex] = static_cast<int32_t>(depth);
        return static_cast<Id>(vertex);
      });
    });
  });
}

// Expands a level that is a bitmap, in the direction that is likely to read less, and marks the next. Returns how many edges
// lead out of vertices that are in no level yet.
template <class Team, class Graph, class Id>
HINTERLAND_FN int64_t expand_dense(Team& team, const Graph& graph, const Graph* incoming, const BfsState<Id>& state,
                                   int64_t depth) {
  const Frontier& frontier = state.frontier;
  const EnterLevel<Id> enter{state, static_cast<int32_t>(depth)};
  collect_groups(team, graph, frontier, depth, frontier.all_groups(), [&] { return enter; });
  // Where every vertex has its level no edge finds another.
  const int64_t num_tasks = frontier.reached(depth) == graph.num_vertices ? 0 : frontier.num_tasks(depth);
  team.single([&] { frontier.begin_visit(depth, num_tasks, team.now_ns()); });
  const int64_t left = graph.num_edges - frontier.explored(depth);
  if (num_tasks != 0 && incoming != nullptr && Direction::pulls(*incoming, frontier, depth))
    advance_pull(team, *incoming, frontier, depth, PullParents<Graph, Id>{*incoming, state});
  else
    visit_tasks(team, graph, frontier, depth, num_tasks,
                [&]<class Touched>(Touched& touched) { return Push<Id, Touched>{state, touched}; });
  return left;
}

// The search. `incoming` are the lists of in-neighbours, ascending, or null where it may only push.
template <class Team, class Graph, class Id>
HINTERLAND_FN void bfs(Team& team, const Graph& graph, const Graph* incoming, const BfsState<Id>& state, int64_t source) {
  const Frontier& frontier = state.frontier;
  team.single([&] { state.begin_at(source); });
  team.wait();
  bool sparse = true, first = true;  // the level is a list, and which of the two
  int64_t left = graph.num_edges;    // edges out of vertices in no level, as far as known
  for (int64_t depth = 0;; ++depth) {
    const int64_t found = sparse ? atomic_load(state.sparse[depth % 3].vertices) : frontier.num_touched(depth);
    if (found == 0) break;
    const bool fits = sparse
                          ? state.is_short(found) && state.are_few(atomic_load(state.sparse[depth % 3].edges), graph.num_edges)
                          : state.is_short(found * kGroup) && state.are_few(left, graph.num_edges);
    team.single([&] {
      frontier.begin_step(depth, team.now_ns());
      state.sparse[(depth + 2) % 3] = SparseLevel{0, 0};  // last read in the level before
    });
    if (sparse && !fits) {
      make_dense(team, state, depth);
      sparse = false;
    } else if (!sparse && fits) {
      make_sparse(team, state, depth);
      sparse = true;
      first = false;
    }
    if (sparse) {
      expand_sparse(team, graph, state, depth, first);
      first = !first;
    } else {
      left = expand_dense(team, graph, incoming, state, depth);
    }
  }
  team.single([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland::graph
