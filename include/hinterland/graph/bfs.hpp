// Breadth-first search, top-down, with deterministic parents.
//
// A level has two steps, with a barrier after each.
//   collect: the vertices discovered last become the frontier: they get their level, are marked visited, and their
//            neighbour lists are cut into tasks of at most kTaskEdges edges, so that many warps share a hub.
//   expand:  a warp takes a task and visits its edges (u, v). Edges to visited vertices are dropped by a bitmap that stays in
//            the L2 cache; for the others parent[v] becomes min(parent[v], u), and whoever finds it unset discovers v.
// So the parent of v is the smallest-numbered of its neighbours in the level before: the same for any number of threads, in
// any order, on any processor. `visited` does not change while a level is expanded; that is why collect is a step of its own.
//
// A task is a group of 32 vertices, not one vertex: in a dense level the lists of a group are read as one run of lines.
// Memory: 4 or 8 bytes a vertex for parents, 4 for levels, and about 1.6 bytes a vertex and 1/128 byte an edge besides.
#pragma once

#include "hinterland/graph/frontier.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland {

inline constexpr int kTaskEdges = 2048;
inline constexpr int kTaskChunks = kTaskEdges / Warp::kWidth;
inline constexpr int kChunksInFlight = 4;  // chunks that a warp requests before it looks at the first

// Levels with a record of their own; deeper ones share the record after the last.
inline constexpr int kLevelRecords = 4096;

struct BfsTask {
  int64_t group, first_chunk;
};

// What one level did. Times are nanoseconds of the clock of the processor that ran it.
struct LevelRecord {
  int64_t vertices, tasks, edges, bytes, start_ns, expand_ns;
};

// Counters of a traversal. Those that many threads hit have a cache line of their own (by padding: the block that holds them
// need not be aligned to a line). Counters with two places alternate between levels: one is cleared while the other is in use.
struct BfsControl {
  int64_t depth;       // levels finished
  int64_t bad_vertex;  // the smallest vertex with a broken neighbour list, num_vertices if lists overlap, or kNone
  int64_t end_ns;
  int64_t apart0[13];
  uint64_t arrived;  // at the barrier of the GPU
  int64_t apart1[15];
  int64_t num_touched[2];
  int64_t apart2[14];
  int64_t num_tasks[2];
  int64_t apart3[14];
  int64_t taken;
  int64_t apart4[15];
  int64_t reached;  // vertices that have a level
  int64_t apart5[15];

  static constexpr int64_t kNone = stdlib::numeric_limits<int64_t>::max();
};
static_assert(sizeof(BfsControl) == 6 * kLineBytes);

// The traversal's memory besides parents and levels: one block, of which the first `zeroed` bytes must be zero at the start.
struct BfsScratch {
  int64_t control, records, visited, next, zeroed, frontier, touched, tasks, bytes;
  int64_t groups, task_capacity;

  HINTERLAND_FN BfsScratch(int64_t num_vertices, int64_t num_edges) {
    groups = ceil_div<int64_t>(num_vertices, kGroup);
    // A group's runs, at most kGroup / 2 of them, end in at most two partly filled chunks each; so all groups together have
    // at most num_edges / kWidth + kGroup * groups chunks, and a group's last task may be partly filled. Lists that overlap,
    // because the offsets fall somewhere, can have more: num_tasks() finds that out.
    task_capacity = 2 * groups + num_edges / kTaskEdges + 1;
    int64_t end = 0;
    control = take(end, sizeof(BfsControl));
    records = take(end, (kLevelRecords + 1) * sizeof(LevelRecord));
    visited = take(end, groups * sizeof(uint32_t));
    next = take(end, groups * sizeof(uint32_t));
    zeroed = end;
    frontier = take(end, groups * sizeof(uint32_t));
    touched = take(end, groups * sizeof(int64_t));
    tasks = take(end, task_capacity * sizeof(BfsTask));
    bytes = end;
  }

  HINTERLAND_FN static int64_t take(int64_t& end, int64_t size) {
    const int64_t begin = end;
    end += ceil_div<int64_t>(size, kLineBytes) * kLineBytes;
    return begin;
  }
};

// Groups by number, or all of them.
struct GroupList {
  const int64_t* numbers;
  int64_t count;

  HINTERLAND_FN int64_t operator[](int64_t i) const { return numbers == nullptr ? i : numbers[i]; }
};

// A level is dense if at least one in so many groups has discovered vertices.
inline constexpr int64_t kDenseShare = 16;

// Id is unsigned: an unset parent is its largest value, which as a signed number reads -1.
template <class Id>
struct BfsState {
  static constexpr Id kUnset = stdlib::numeric_limits<Id>::max();

  Id* parents;
  int32_t* levels;
  BfsControl* control;
  LevelRecord* records;
  uint32_t* visited;   // one bit a vertex: in the frontier or in a level before it
  uint32_t* next;      // discovered in this level
  uint32_t* frontier;  // valid for groups that have tasks
  int64_t* touched;    // groups with a bit in `next`, each once
  BfsTask* tasks;
  int64_t num_groups, task_capacity;

  HINTERLAND_FN BfsState(Id* parents, int32_t* levels, char* scratch, const BfsScratch& at)
      : parents(parents),
        levels(levels),
        control(reinterpret_cast<BfsControl*>(scratch + at.control)),
        records(reinterpret_cast<LevelRecord*>(scratch + at.records)),
        visited(reinterpret_cast<uint32_t*>(scratch + at.visited)),
        next(reinterpret_cast<uint32_t*>(scratch + at.next)),
        frontier(reinterpret_cast<uint32_t*>(scratch + at.frontier)),
        touched(reinterpret_cast<int64_t*>(scratch + at.touched)),
        tasks(reinterpret_cast<BfsTask*>(scratch + at.tasks)),
        num_groups(at.groups),
        task_capacity(at.task_capacity) {}

  // One thread calls this before the first level.
  HINTERLAND_FN void begin_at(int64_t source) const {
    control->bad_vertex = BfsControl::kNone;
    parents[source] = static_cast<Id>(source);
    next[group_of(source)] = bit_of(source);
    touched[0] = group_of(source);
    control->num_touched[0] = 1;
  }

  HINTERLAND_FN LevelRecord& record(int64_t depth) const { return records[min_of<int64_t>(depth, kLevelRecords)]; }

  HINTERLAND_FN void report_bad(int64_t vertex) const { atomic_min(control->bad_vertex, vertex); }

  // One thread calls this at the start of each collect step. num_touched of the next level was last read in the level before.
  HINTERLAND_FN void begin_collect(int64_t depth, int64_t now) const {
    if (depth <= kLevelRecords) record(depth).start_ns = now;
    control->num_touched[(depth + 1) % 2] = 0;
    control->taken = 0;
  }

  // One thread calls this at the start of each expand step.
  HINTERLAND_FN void begin_expand(int64_t depth, int64_t tasks, int64_t now) const {
    if (depth <= kLevelRecords) record(depth).expand_ns = now;
    record(depth).tasks += tasks;
    control->num_tasks[(depth + 1) % 2] = 0;
    control->depth = depth + 1;
  }

  // The tasks of level `depth`, once it is collected: none where every vertex has its level, for then no edge finds another.
  HINTERLAND_FN int64_t num_tasks(int64_t depth, int64_t num_vertices) const {
    if (atomic_load(control->reached) == num_vertices) return 0;
    const int64_t collected = atomic_load(control->num_tasks[depth % 2]);
    if (collected <= task_capacity) return collected;
    report_bad(num_vertices);  // the lists overlap, which no vertex alone shows
    return 0;
  }

  // The groups to collect in level `depth`: those with discovered vertices, or, where they are many, all in order. Tasks then
  // come in the order of the edge array, so that the reads of all warps together stay within few pages; the GPU translates
  // addresses fast enough only then (docs/memory.md). None where nothing was discovered.
  HINTERLAND_FN GroupList groups(int64_t depth) const {
    const int64_t found = atomic_load(control->num_touched[depth % 2]);
    return found * kDenseShare < num_groups ? GroupList{touched, found} : GroupList{nullptr, num_groups};
  }

  // Where threads put the groups in which they discover vertices of level `depth`.
  HINTERLAND_FN Bag<int64_t> touched_bag(int64_t depth) const {
    return {touched, &control->num_touched[depth % 2], num_groups};
  }
  HINTERLAND_FN Bag<BfsTask> task_bag(int64_t depth) const {
    return {tasks, &control->num_tasks[depth % 2], task_capacity};
  }
};

// Vertices that a thread has collected in a level, and the edges out of them; add_to() reports them once.
struct Collected {
  int64_t vertices = 0, edges = 0;

  HINTERLAND_FN void add_to(LevelRecord& record, BfsControl& control) const {
    const int64_t all_vertices = Warp::sum(vertices), all_edges = Warp::sum(edges);
    if (all_vertices == 0 || Warp::lane() != 0) return;
    atomic_add(record.vertices, all_vertices);
    atomic_add(record.edges, all_edges);
    atomic_add(control.reached, all_vertices);
  }
};

// Bytes of the edge array that a thread has read in a level, in whole sectors.
struct BytesRead {
  int64_t bytes = 0;

  HINTERLAND_FN void add_to(LevelRecord& record) const {
    const int64_t all = Warp::sum(bytes);
    if (all != 0 && Warp::lane() == 0) atomic_add(record.bytes, all);
  }
};

// The lists of kWidth vertices from `vertex` (this lane's) on. A list that does not lie in the edge array is left out.
template <class Graph, class Id>
HINTERLAND_FN Lists lists_of(const Graph& graph, const BfsState<Id>& state, int64_t vertex, bool active) {
  int64_t begin = 0, end = 0;
  if (active) {
    begin = graph.offsets.read(vertex);
    end = graph.offsets.read(vertex + 1);
    if (begin < 0 || end < begin || end > graph.num_edges) {
      state.report_bad(vertex);
      active = false;
    }
  }
  return Lists(graph.edges, begin, end, active);
}

// Makes the discovered vertices of groups [first, last) of a list, at most one a lane, part of the frontier at `depth`. A lane
// looks after the bitmap words and the tasks of its group; the vertices of each group are shared by all lanes.
template <class Graph, class Id, class Tasks>
HINTERLAND_FN void collect(const Graph& graph, const BfsState<Id>& state, const GroupList& groups, int64_t first, int64_t last,
                           int64_t depth, Tasks& tasks, Collected& counts) {
  const bool has_group = first + Warp::lane() < last;
  const int64_t own_group = has_group ? groups[first + Warp::lane()] : 0;
  const uint32_t own_word = has_group ? state.next[own_group] : 0;
  if (own_word != 0) {
    state.frontier[own_group] = own_word;
    state.visited[own_group] |= own_word;
    state.next[own_group] = 0;
  }
  int64_t own_chunks = 0;
  for (int turn = 0; turn < last - first; ++turn) {
    const int64_t group = Warp::broadcast(own_group, turn);
    const uint32_t word = Warp::broadcast(own_word, turn);
    int64_t chunks = 0;
    for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
      const bool active = word >> (sub + Warp::lane()) & 1u;
      if (!Warp::any(active)) continue;
      const int64_t vertex = group * kGroup + sub + Warp::lane();
      if (active) state.levels[vertex] = static_cast<int32_t>(depth);
      const Lists lists = lists_of(graph, state, vertex, active);
      chunks += lists.chunks;
      counts.vertices += active;
      counts.edges += lists.end - lists.begin;
    }
    if (Warp::lane() == turn) own_chunks = chunks;
  }
  tasks.append(ceil_div<int64_t>(own_chunks, kTaskChunks), [&](int64_t k) { return BfsTask{own_group, k * kTaskChunks}; });
}

// v got its first parent.
template <class Id, class Touched>
HINTERLAND_FN void discover(const BfsState<Id>& state, int64_t v, Touched& touched) {
  if (atomic_or(state.next[group_of(v)], bit_of(v)) == 0) touched.append(group_of(v));
}

// Visits the edges of one task: of the task's chunks, those of each list in turn. On the GPU the lists of the group are one
// Lists; on the CPU, where a warp has one lane, each list is one.
template <class Graph, class Id, class Touched>
HINTERLAND_FN void expand(const Graph& graph, const BfsState<Id>& state, const BfsTask& task, Touched& touched,
                          BytesRead& read) {
  using Edge = typename decltype(graph.edges)::value_type;
  const uint32_t word = state.frontier[task.group];
  int64_t skip = task.first_chunk;  // chunks of the group that other tasks have taken
  int64_t left = kTaskChunks;
  for (int sub = 0; sub < kGroup && left > 0; sub += Warp::kWidth) {
    const bool active = word >> (sub + Warp::lane()) & 1u;
    if (!Warp::any(active)) continue;
    const int64_t base = task.group * kGroup + sub;
    const Lists lists = lists_of(graph, state, base + Warp::lane(), active);
    const int64_t from = min_of(skip, lists.chunks), to = min_of(from + left, lists.chunks);
    if (from == 0) read.bytes += lists.bytes;  // the task that begins the lists counts for those that go on
    skip -= from;
    left -= to - from;
    const Window window(lists, from, to);
    const int32_t length = static_cast<int32_t>(to - from) * Warp::kWidth;
    for (int32_t place = Warp::lane(); place - Warp::lane() < length; place += kChunksInFlight * Warp::kWidth) {
      // Each memory access is a loop of its own over the chunks: a warp waits once for several, not for each.
      Edge neighbour[kChunksInFlight];
      int owner[kChunksInFlight];
      uint32_t seen[kChunksInFlight];
      Id before[kChunksInFlight];  // parent before this visit; 0, which no vertex is less than, where there is none to make
      for (int k = 0; k < kChunksInFlight; ++k) {
        const Window::Element element = window.at(place + k * Warp::kWidth);
        owner[k] = element.valid ? element.owner : -1;
        neighbour[k] = element.valid ? graph.edges.read(element.index) : 0;
      }
      for (int k = 0; k < kChunksInFlight; ++k) {
        seen[k] = 1;
        if (owner[k] < 0) continue;
        if (static_cast<uint64_t>(static_cast<int64_t>(neighbour[k])) < static_cast<uint64_t>(graph.num_vertices))
          seen[k] = state.visited[group_of(neighbour[k])] & bit_of(neighbour[k]);
        else
          state.report_bad(base + owner[k]);
      }
      for (int k = 0; k < kChunksInFlight; ++k) before[k] = seen[k] ? 0 : atomic_load(state.parents[neighbour[k]]);
      for (int k = 0; k < kChunksInFlight; ++k) {
        const Id parent = static_cast<Id>(base + owner[k]);
        before[k] = before[k] > parent ? atomic_min(state.parents[neighbour[k]], parent) : 0;
      }
      for (int k = 0; k < kChunksInFlight; ++k)
        if (before[k] == BfsState<Id>::kUnset) discover(state, neighbour[k], touched);
    }
  }
}

}  // namespace hinterland
