// The frontier of a traversal: which vertices are visited next, kept as a bitmap, and the work that visiting them is.
//
// A step of a traversal has two loops.
//   collect: vertices marked in `next` move to `current`, and their neighbour lists are cut into tasks of at most kTaskEdges
//            edges, so that many warps share a hub.
//   visit:   a warp takes a task and visits its edges (visit.hpp); what it finds, it marks in `next`.
// A task is a group of 32 vertices, not one vertex: in a dense step the lists of a group are read as one run of lines.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/graph/lists.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::graph {

// Vertices are kept in groups: the bits of one bitmap word.
inline constexpr int kGroup = 32;

HINTERLAND_FN int64_t group_of(int64_t vertex) { return vertex / kGroup; }
HINTERLAND_FN uint32_t bit_of(int64_t vertex) { return 1u << (vertex % kGroup); }

// Items that all threads add in any order. What exceeds its capacity is counted and not kept.
template <class T>
struct AppendQueue {
  using value_type = T;

  T* items;
  int64_t* count;
  int64_t capacity;

  HINTERLAND_FN void append(const T& item) const { put(atomic_add(*count, int64_t{1}), item); }
  HINTERLAND_FN void put(int64_t place, const T& item) const {
    if (place < capacity) items[place] = item;
  }

  // All lanes call it together: each adds its own n items, make(0) to make(n - 1), and the counter is asked once for all.
  template <class Make>
  HINTERLAND_FN void append(int64_t n, Make make) const {
    const int64_t before = Warp::exclusive_sum(n);
    const int64_t all = Warp::broadcast(before + n, Warp::kWidth - 1);
    if (all == 0) return;
    int64_t place = 0;
    if (Warp::lane() == 0) place = atomic_add(*count, all);
    place = Warp::broadcast(place, 0) + before;
    for (int64_t k = 0; k < n; ++k) put(place + k, make(k));
  }
};

// Of a task, at most: docs/notes/thresholds.md.
inline constexpr int kTaskEdges = 2048;
inline constexpr int kTaskChunks = kTaskEdges / Warp::kWidth;

// Part `part` of the lists of a group's vertices, of kTaskChunks chunks; or of the list of one vertex, of kTaskEdges edges.
// Numbers of groups and vertices stay below 2^38, and no list has 2^37 edges.
struct Task {
  static constexpr int kPartBits = 26;

  uint64_t word;

  HINTERLAND_FN static Task of(int64_t owner, int64_t part) { return {static_cast<uint64_t>(owner << kPartBits | part)}; }
  HINTERLAND_FN int64_t group() const { return static_cast<int64_t>(word >> kPartBits); }
  HINTERLAND_FN int64_t vertex() const { return group(); }
  HINTERLAND_FN int64_t part() const { return static_cast<int64_t>(word & ((1u << kPartBits) - 1)); }
  HINTERLAND_FN int64_t first_chunk() const { return part() * kTaskChunks; }
};

// Steps with a record of their own; later ones share the record after the last.
inline constexpr int kStepRecords = 4096;

// What one step did. Times are nanoseconds of the clock of the processor that ran it.
struct StepRecord {
  int64_t vertices;  // in the frontier
  int64_t tasks;
  int64_t edges;   // out of the frontier
  int64_t pulled;  // 1 if the step looked for parents instead of children
  int64_t start_ns, visit_ns;
  // What reading edges and their weights cost, if it was metered: where they lie, and in what the GPU keeps of them.
  memory::TierCount home, kept;
};

// Counters of a traversal. Those that many threads hit have a cache line of their own. Counters with two places alternate
// between steps: one is cleared while the other is in use.
struct FrontierControl {
  int64_t depth;  // steps finished
  int64_t bad;    // the smallest vertex with a broken neighbour list, num_vertices if lists overlap, or kNone
  int64_t end_ns;
  int64_t padding0[13];
  TeamControl team;
  int64_t num_touched[2];
  int64_t padding1[14];
  int64_t num_tasks[2];
  int64_t num_parts[2];  // tasks that pulling makes of long lists
  int64_t padding2[12];
  int64_t vertices[2], edges[2];  // of a step: in its frontier, and out of it
  int64_t reached, explored;      // the same, summed over the steps before
  int64_t padding3[10];

  static constexpr int64_t kNone = stdlib::numeric_limits<int64_t>::max();
};
static_assert(sizeof(FrontierControl) == 6 * kLineBytes);

// The memory of a run, from which its state takes one array after another, each from a cache line on. A state without memory
// tells Python how much it takes, and where in it the arrays lie.
struct Scratch {
  char* memory;
  int64_t bytes = 0;   // taken so far
  int64_t zeroed = 0;  // bytes at the beginning that must be zero at the start

  template <class T>
  HINTERLAND_FN T* take(int64_t count) {
    T* const array = reinterpret_cast<T*>(memory + bytes);
    bytes += ceil_div<int64_t>(count * static_cast<int64_t>(sizeof(T)), kLineBytes) * kLineBytes;
    return array;
  }
};

// Groups by number, or all of them.
struct GroupList {
  const int64_t* numbers;
  int64_t count;

  HINTERLAND_FN int64_t operator[](int64_t i) const { return numbers == nullptr ? i : numbers[i]; }
  HINTERLAND_FN bool all() const { return numbers == nullptr; }
};

// A step is dense if at least one in so many groups has marked vertices (docs/notes/thresholds.md).
inline constexpr int64_t kDenseShare = 16;

// It takes about 1 byte a vertex and 1/128 byte an edge. What a run takes before it must be zero at the start.
struct Frontier {
  int64_t num_vertices, num_groups, task_capacity;
  FrontierControl* control;
  uint32_t* next;  // marked for the step to come
  StepRecord* records;
  uint32_t* current;  // in this step; valid for groups that have tasks, and everywhere after a dense collect
  int64_t* touched;   // groups with a bit in `next`, each once
  Task* tasks;

  HINTERLAND_FN Frontier(Scratch& scratch, int64_t num_vertices, int64_t num_edges)
      : num_vertices(num_vertices),
        num_groups(ceil_div<int64_t>(num_vertices, kGroup)),
        // A group's runs, at most kGroup / 2 of them, end in at most two partly filled chunks each; so all groups together have
        // at most num_edges / kWidth + kGroup * num_groups chunks, and a group's last task may be partly filled. Lists that
        // overlap, because the offsets fall somewhere, can have more: num_tasks() finds that out.
        task_capacity(2 * num_groups + 2 * (num_edges / kTaskEdges) + 1),
        control(scratch.take<FrontierControl>(1)),
        next(scratch.take<uint32_t>(num_groups)) {
    scratch.zeroed = scratch.bytes + static_cast<int64_t>(sizeof(StepRecord));  // records but the first are zeroed one by one
    records = scratch.take<StepRecord>(kStepRecords + 1);
    current = scratch.take<uint32_t>(num_groups);
    touched = scratch.take<int64_t>(num_groups);
    tasks = scratch.take<Task>(task_capacity);
  }

  // One thread calls these before the first step: begin(), then start() for each vertex to begin at.
  HINTERLAND_FN void begin() const { control->bad = FrontierControl::kNone; }
  HINTERLAND_FN void start(int64_t vertex) const {
    if (next[group_of(vertex)] == 0) touched[control->num_touched[0]++] = group_of(vertex);
    next[group_of(vertex)] |= bit_of(vertex);
  }

  HINTERLAND_FN StepRecord& record(int64_t step) const { return records[min_of<int64_t>(step, kStepRecords)]; }

  // One thread calls this as a step begins, before the step's first loop ends.
  HINTERLAND_FN void begin_step(int64_t step, int64_t now) const {
    settle(step - 1);
    if (step < kStepRecords) records[step + 1] = {};
    if (step <= kStepRecords) record(step).start_ns = now;
    control->num_touched[(step + 1) % 2] = 0;                      // last read in the step before
    atomic_store(control->num_parts[(step + 1) % 2], int64_t{0});  // threads may still be reading it where there were none
    control->depth = step + 1;
  }

  // One thread calls this while a step's edges are visited.
  HINTERLAND_FN void begin_visit(int64_t step, int64_t tasks, int64_t now) const {
    if (step <= kStepRecords) record(step).visit_ns = now;
    record(step).tasks += tasks;
    control->num_tasks[(step + 1) % 2] = 0;
  }

  // One thread calls this after the last step.
  HINTERLAND_FN void end(int64_t now) const {
    settle(control->depth - 1);
    control->end_ns = now;
  }

  // In a step whose vertices are counted: those in the frontier, the edges out of them, and both for all steps so far.
  HINTERLAND_FN int64_t vertices(int64_t step) const { return atomic_load(control->vertices[step % 2]); }
  HINTERLAND_FN int64_t edges(int64_t step) const { return atomic_load(control->edges[step % 2]); }
  HINTERLAND_FN int64_t reached(int64_t step) const { return atomic_load(control->reached) + vertices(step); }
  HINTERLAND_FN int64_t explored(int64_t step) const { return atomic_load(control->explored) + edges(step); }

  // The groups to collect: those with marked vertices, or, where they are many, all in order. Tasks then come in the order
  // of the edge array, so that the reads of all warps together stay within few pages; the GPU translates addresses fast
  // enough only then (docs/memory.md). None where nothing is marked.
  HINTERLAND_FN GroupList groups(int64_t step) const {
    const int64_t found = num_touched(step);
    return found * kDenseShare < num_groups ? GroupList{touched, found} : all_groups();
  }
  HINTERLAND_FN GroupList all_groups() const { return {nullptr, num_groups}; }
  HINTERLAND_FN int64_t num_touched(int64_t step) const { return atomic_load(control->num_touched[step % 2]); }

  // The tasks of a step once it is collected.
  HINTERLAND_FN int64_t num_tasks(int64_t step) const { return counted(control->num_tasks[step % 2]); }
  HINTERLAND_FN int64_t num_parts(int64_t step) const { return counted(control->num_parts[step % 2]); }

  // Where threads put the groups in which they mark vertices for the step after `step`.
  HINTERLAND_FN AppendQueue<int64_t> touched_queue(int64_t step) const {
    return {touched, &control->num_touched[(step + 1) % 2], num_groups};
  }
  HINTERLAND_FN AppendQueue<Task> task_queue(int64_t step) const {
    return {tasks, &control->num_tasks[step % 2], task_capacity};
  }
  // Parts of long lists take the place of the step's tasks.
  HINTERLAND_FN AppendQueue<Task> part_queue(int64_t step) const {
    return {tasks, &control->num_parts[step % 2], task_capacity};
  }

  // Marks v for the step to come.
  template <class Touched>
  HINTERLAND_FN void mark(int64_t v, Touched& to) const {
    if (atomic_or(next[group_of(v)], bit_of(v)) == 0) to.append(group_of(v));
  }

  HINTERLAND_FN void report_bad(int64_t vertex) const { atomic_min(control->bad, vertex); }

 private:
  // Adds what a finished step counted to the sums, and clears its counters for the step after the next.
  HINTERLAND_FN void settle(int64_t step) const {
    if (step < 0) return;
    int64_t &vertices = control->vertices[step % 2], &edges = control->edges[step % 2];
    record(step).vertices += vertices;
    record(step).edges += edges;
    control->reached += vertices;
    control->explored += edges;
    vertices = edges = 0;
  }

  HINTERLAND_FN int64_t counted(int64_t& count) const {
    const int64_t found = atomic_load(count);
    if (found <= task_capacity) return found;
    report_bad(num_vertices);  // the lists overlap, which no vertex alone shows
    return 0;
  }
};

// What a thread did in a step; add_to() reports it once.
template <class Meter = memory::NoMeter>
struct StepCounts {
  int64_t vertices = 0, edges = 0;
  int64_t bad = FrontierControl::kNone;
  Meter meter;

  HINTERLAND_FN void add_to(const Frontier& frontier, int64_t step) const {
    if (bad != FrontierControl::kNone) frontier.report_bad(bad);
    add(vertices, edges, &frontier.control->vertices[step % 2], &frontier.control->edges[step % 2]);
    if constexpr (Meter::kCounts) {
      StepRecord& record = frontier.record(step);
      add(meter.home, record.home);
      add(meter.kept, record.kept);
    }
  }

 private:
  // Adds the lanes' sums. Every loop of a driver ends here; inlined, that would be half of a kernel. Both in one call: the
  // shuffles of one sum are waited for while the other's are under way.
  HINTERLAND_APART static void add(int64_t first, int64_t second, int64_t* to_first, int64_t* to_second) {
    first = Warp::sum(first);
    second = Warp::sum(second);
    if (Warp::lane() != 0) return;
    if (first != 0) atomic_add(*to_first, first);
    if (second != 0) atomic_add(*to_second, second);
  }
  HINTERLAND_FN static void add(const memory::TierCount& count, memory::TierCount& to) {
    for (int k = 0; k < count.kSectors; k += 2)
      add(count.requests[k], count.requests[k + 1], &to.requests[k], &to.requests[k + 1]);
    add(count.hits, count.useful, &to.hits, &to.useful);
  }
};

// Those of a loop that reads this graph.
template <class Graph>
using CountsOf = StepCounts<typename Graph::Meter>;

// Where the list of a vertex lies in the edge array; nowhere if its offsets do not lie there, and then the vertex is bad.
struct ListBounds {
  int64_t begin = 0, end = 0;

  // Of each lane's vertex, if it is active. All lanes call it together.
  template <class Graph, class Counts>
  HINTERLAND_FN ListBounds(const Graph& graph, int64_t vertex, bool active, Counts& counts) {
    const Piece found = graph.offsets.list(vertex, active);
    if (active) *this = ListBounds(graph, vertex, found, counts);
  }

  template <class Graph, class Counts>
  HINTERLAND_FN static ListBounds alone(const Graph& graph, int64_t vertex, Counts& counts) {
    return {graph, vertex, graph.offsets.list_alone(vertex), counts};
  }

 private:
  template <class Graph, class Counts>
  HINTERLAND_FN ListBounds(const Graph& graph, int64_t vertex, const Piece& found, Counts& counts) {
    if (found.lies_within(graph.num_edges)) {
      begin = found.begin;
      end = found.end;
    } else {
      counts.bad = min_of(counts.bad, vertex);
    }
  }
};

// For collect(), where a vertex gets nothing as it enters the frontier.
struct EnterNothing {
  HINTERLAND_FN void operator()(int64_t) const {}
};

// Collects groups [first, last) of a list, at most one a lane. A lane looks after the words and the tasks of its group; the
// vertices of each group are shared by all lanes. enter(vertex) is told each vertex of the new frontier, enter.group(group,
// word) its vertices of a group at once.
template <class Graph, class Enter, class Tasks, class Counts>
HINTERLAND_FN void collect(const Graph& graph, const Frontier& frontier, const GroupList& groups, int64_t first, int64_t last,
                           Enter& enter, Tasks& tasks, Counts& counts) {
  const bool has_group = first + Warp::lane() < last;
  const int64_t own_group = has_group ? groups[first + Warp::lane()] : 0;
  const uint32_t own_word = has_group ? frontier.next[own_group] : 0;
  if (has_group) frontier.current[own_group] = own_word;
  if (own_word != 0) {
    frontier.next[own_group] = 0;
    if constexpr (requires { enter.group(own_group, own_word); }) enter.group(own_group, own_word);
  }
  if (!Warp::any(own_word != 0)) return;
  int64_t own_chunks = 0;
  for (int turn = 0; turn < last - first; ++turn) {
    const int64_t group = Warp::broadcast(own_group, turn);
    const uint32_t word = Warp::broadcast(own_word, turn);
    if (word == 0) continue;
    int64_t chunks = 0;
    for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
      const bool active = word >> (sub + Warp::lane()) & 1u;
      if (!Warp::any(active)) continue;
      const int64_t vertex = group * kGroup + sub + Warp::lane();
      if (active) enter(vertex);
      const auto lists = lists_of(graph, vertex, active, counts);
      chunks += lists.chunks;
      counts.vertices += active;
      counts.edges += lists.length();
    }
    if (Warp::lane() == turn) own_chunks = chunks;
  }
  tasks.append(ceil_div<int64_t>(own_chunks, kTaskChunks), [&](int64_t k) { return Task::of(own_group, k); });
}

template <class Ranges, class Body>
HINTERLAND_FN void for_each_vertex_of(const Ranges& ranges, const Frontier& frontier, const Body& body) {
  ranges([&](int64_t first, int64_t last) {
    HINTERLAND_ROLLED
    for (int64_t begin = first * kGroup; begin < last * kGroup; begin += Warp::kWidth) {
      const int64_t vertex = begin + Warp::lane();
      body(vertex, vertex < frontier.num_vertices);
    }
  });
}

// A bit for each of the group's vertices for which holds(vertex). All lanes call it together.
template <class Holds>
HINTERLAND_FN uint32_t those_of(int64_t group, int64_t num_vertices, const Holds& holds) {
  uint32_t word = 0;
  for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
    const int64_t vertex = group * kGroup + sub + Warp::lane();
    word |= Warp::ballot(vertex < num_vertices && holds(vertex)) << sub;
  }
  return word;
}

// body(vertex, there) for all vertices, the lanes of a warp together; there is none for some lanes of the last group.
template <class Team, class Body>
HINTERLAND_FN void for_each_vertex(Team& team, const Frontier& frontier, const Body& body) {
  team.static_for(frontier.num_groups, [&](const auto& ranges) { for_each_vertex_of(ranges, frontier, body); });
}

}  // namespace hinterland::graph
