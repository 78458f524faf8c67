// Reading ahead: a loop that knows what it will read has it asked for before its turn, so that a disk is busy with much at a
// time (planned reads of a level). A CPU's thread looks far ahead by itself (Ahead): the families of sources that it does so
// for say kReadsAhead. A GPU's warps look one list ahead, for themselves or for each other (WarpsAhead), where reads may have
// to wait (kWaits): then as much is on its way while edges are visited as while all wait. For other families no code is made.
//
// Their large arrays have ask(begin, end), which begins to read what holds these elements, waits for nothing, and says how many
// reads it has begun; most_ahead(), how many a thread may have begun before their turn; bytes_ahead(), how much all warps may;
// and bytes_read(elements), what reading so many takes of that. All lanes of a warp call everything together, each with a list
// of its own, or with none.
#pragma once

#include "hinterland/graph/visit.hpp"

namespace hinterland::graph {

template <class Graph>
inline constexpr bool kReadsAhead = requires { Graph::Family::kReadsAhead; };
template <class Graph>
inline constexpr bool kWarpsAsk = Warp::kWidth > 1 && requires { Graph::Family::kWaits; };

// Elements of the list of a vertex, which are some of the graph's.
template <class Graph>
HINTERLAND_FN int64_t ask_for([[maybe_unused]] const Graph& graph, [[maybe_unused]] int64_t vertex,
                              [[maybe_unused]] const Piece& part) {
  int64_t begun = 0;
  if constexpr (kReadsAhead<Graph> || kWarpsAsk<Graph>) {
    begun = ask_for_edges(graph, vertex, part);
    if constexpr (Graph::kWeighted) begun += graph.weights.ask(part.begin, part.end);
  }
  return begun;
}

// Elements [from, to) of the vertex's list, as far as it has them; -1 has none.
template <class Graph>
HINTERLAND_FN int64_t ask_for_list(const Graph& graph, int64_t vertex, int64_t from, int64_t to) {
  Piece list = vertex < 0 ? Piece{} : graph.offsets.list_alone(vertex);
  if (!list.lies_within(graph.num_edges)) list = {};
  return ask_for(graph, vertex, {min_of(list.begin + from, list.end), min_of(list.begin + to, list.end)});
}

// The first `most` elements of the lists of the group's vertices that have a bit in `word`.
template <class Graph>
HINTERLAND_FN int64_t ask_for_group(const Graph& graph, int64_t group, uint32_t word, int64_t most) {
  int64_t begun = 0;
  for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
    const int place = sub + Warp::lane();
    const int64_t vertex = group * kGroup + place;
    const bool asks = (word >> place & 1u) != 0 && graph.has(vertex);
    if (Warp::any(asks)) begun += ask_for_list(graph, asks ? vertex : -1, 0, most);
  }
  return begun;
}

// Of a list in which something is looked for, what is read ahead: most searches end sooner, and of what follows the first lines
// a reader asks for more by itself.
inline constexpr int64_t kLookedThrough = 64;

// What visit() reads for a task.
template <class Graph>
HINTERLAND_FN int64_t ask_for_task(const Graph& graph, const Frontier& frontier, const Task& task) {
  int64_t begun = 0;
  StepCounts<> counts;  // visit() counts
  for_each_part(graph, frontier, task, counts, [&](const auto& lists, int64_t vertex, int64_t from, int64_t to) {
    begun += ask_for(graph, vertex, Window(lists, from, to).own());
  });
  return begun;
}

// The part of a long list that part_of() gives.
template <class Graph>
HINTERLAND_FN int64_t ask_for_part(const Graph& graph, const Task& task) {
  const int64_t from = task.part() * kTaskEdges;
  return ask_for_list(graph, Warp::lane() == 0 ? task.vertex() : -1, from, from + kTaskEdges);
}

// Reads that a thread may have begun before their turn.
template <class Graph>
int64_t most_ahead(const Graph& graph) {
  int64_t most;
  if constexpr (requires { graph.words; })
    most = graph.words.most_ahead();
  else
    most = graph.edges.most_ahead();
  if constexpr (Graph::kWeighted) most = max_of(most, graph.weights.most_ahead());
  return most;
}

// One thread's look ahead in a loop over items by number, of which it takes runs. Before item i it calls ahead(i, end, ask):
// ask(item) says how many reads it has begun for an item that follows.
template <class Graph>
class Ahead {
 public:
  HINTERLAND_FN explicit Ahead([[maybe_unused]] const Graph& graph) {
    if constexpr (kReadsAhead<Graph>) most_ = most_ahead(graph);
  }

  template <class Ask>
  HINTERLAND_FN void operator()([[maybe_unused]] int64_t item, [[maybe_unused]] int64_t end, [[maybe_unused]] const Ask& ask) {
    if constexpr (kReadsAhead<Graph>) {
      if (item != next_) asked_ = item, under_way_ = 0;  // the beginning of another run
      next_ = item + 1;
      if (asked_ > item) under_way_ -= begun_[item % kItems];
      for (asked_ = max_of(asked_, item); asked_ < min_of(end, item + kItems) && under_way_ < most_; ++asked_)
        under_way_ += begun_[asked_ % kItems] = static_cast<uint16_t>(min_of<int64_t>(ask(asked_), 0xffff));
    }
  }

 private:
  // Short lists, of which a page holds a hundred, are looked at far ahead; where each begins a read, `most_` is reached sooner.
  static constexpr int64_t kItems = 1024;

  int64_t most_ = 0, next_ = -1, asked_ = 0;
  int64_t under_way_ = 0;  // reads for items from the next on
  uint16_t begun_[kReadsAhead<Graph> ? kItems : 1];
};

// The look ahead of a team's warps. How far: docs/notes/storage-on-h100.md.
template <class Graph>
class WarpsAhead {
 public:
  template <class Team>
  HINTERLAND_FN WarpsAhead([[maybe_unused]] const Graph& graph, [[maybe_unused]] const Team& team) {
    if constexpr (kWarpsAsk<Graph>) {
      const int64_t most = most_bytes(graph), warps = team.warps();
      if (most == 0) return;
      tasks_ = min_of(most / bytes_of(graph, kTaskEdges), warps);
      // A group of mean lists is in one piece, or each list in a line of its own. That is kept until the group's turn comes, as
      // what the warp goes through is, so it may take twice as much as tasks.
      const int64_t edges = kGroup * graph.num_edges / max_of<int64_t>(graph.num_vertices, 1);
      const int64_t group = min_of(bytes_of(graph, edges), kGroup * bytes_of(graph, 1));
      has_room_ = group <= 2 * most / warps;
    }
  }

  // Before a task, which is handed out in order: one that somebody will have soon.
  template <class Ask>
  HINTERLAND_FN void for_others([[maybe_unused]] int64_t task, [[maybe_unused]] int64_t end,
                                [[maybe_unused]] const Ask& ask) const {
    if constexpr (kWarpsAsk<Graph>)
      if (tasks_ > 0 && task + tasks_ < end) ask(task + tasks_);
  }

  // Before one of the groups that a warp goes through: the next of them.
  template <class Ask>
  HINTERLAND_FN void for_itself([[maybe_unused]] int64_t group, [[maybe_unused]] int64_t end,
                                [[maybe_unused]] const Ask& ask) const {
    if constexpr (kWarpsAsk<Graph>)
      if (has_room_ && group + 1 < end) ask(group + 1);
  }

 private:
  // Of the cache, which edges and weights share, what all warps may ask for; and what as many elements of each take.
  HINTERLAND_FN static int64_t most_bytes(const Graph& graph) {
    int64_t most;
    if constexpr (requires { graph.words; })
      most = graph.words.bytes_ahead();
    else
      most = graph.edges.bytes_ahead();
    if constexpr (Graph::kWeighted) most = max_of(most, graph.weights.bytes_ahead());
    return most;
  }
  HINTERLAND_FN static int64_t bytes_of(const Graph& graph, int64_t edges) {
    int64_t bytes;
    if constexpr (requires { graph.words; })
      bytes = graph.words.bytes_read(edges * sizeof(typename Graph::Edge) / sizeof(uint32_t));
    else
      bytes = graph.edges.bytes_read(edges);
    if constexpr (Graph::kWeighted) bytes += graph.weights.bytes_read(edges);
    return bytes;
  }

  int64_t tasks_ = 0;
  bool has_room_ = false;
};

}  // namespace hinterland::graph
