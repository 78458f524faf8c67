// Reading ahead: a loop that knows what it will read has it asked for before its turn, so that a disk is busy with much at a time
// (planned reads of a level). Only for families of sources that say kReadsAhead; for others no code is made. Their large arrays
// have ask(begin, end), which begins to read what holds these elements, waits for nothing, and says how many reads it has begun;
// and most_ahead(), how many of them a thread may have begun before their turn.
//
// By one thread for itself: where warps have many lanes, enough of them wait at a time.
#pragma once

#include "hinterland/graph/visit.hpp"

namespace hinterland::graph {

template <class Graph>
inline constexpr bool kReadsAhead = requires { Graph::Family::kReadsAhead; };

// Elements of the list of a vertex, which are some of the graph's.
template <class Graph>
HINTERLAND_FN int64_t ask_for([[maybe_unused]] const Graph& graph, [[maybe_unused]] int64_t vertex,
                              [[maybe_unused]] const Piece& part) {
  int64_t begun = 0;
  if constexpr (kReadsAhead<Graph>) {
    begun = ask_for_edges(graph, vertex, part);
    if constexpr (Graph::kWeighted) begun += graph.weights.ask(part.begin, part.end);
  }
  return begun;
}

// Elements [from, to) of the vertex's list, as far as it has them.
template <class Graph>
HINTERLAND_FN int64_t ask_for_list(const Graph& graph, int64_t vertex, int64_t from, int64_t to) {
  const Piece list = graph.offsets.list_alone(vertex);
  if (!list.lies_within(graph.num_edges)) return 0;
  return ask_for(graph, vertex, {min_of(list.begin + from, list.end), min_of(list.begin + to, list.end)});
}

// The first `most` elements of the lists of the group's vertices that have a bit in `word`.
template <class Graph>
HINTERLAND_FN int64_t ask_for_group(const Graph& graph, int64_t group, uint32_t word, int64_t most) {
  int64_t begun = 0;
  for (; word != 0; word &= word - 1) {
    const int64_t vertex = group * kGroup + stdlib::countr_zero(word);
    if (graph.has(vertex)) begun += ask_for_list(graph, vertex, 0, most);
  }
  return begun;
}

// Of a list in which something is looked for, what is read ahead: most searches end sooner, and of what follows the first lines a
// reader asks for more by itself.
inline constexpr int64_t kLookedThrough = 64;

// What visit() reads for a task.
template <class Graph>
HINTERLAND_FN int64_t ask_for_task(const Graph& graph, const Frontier& frontier, const Task& task) {
  int64_t begun = 0, skip = task.first_chunk(), left = kTaskChunks;
  for (uint32_t word = frontier.current[task.group()]; word != 0 && left > 0; word &= word - 1) {
    const int64_t vertex = task.group() * kGroup + stdlib::countr_zero(word);
    const Piece list = graph.offsets.list_alone(vertex);
    if (!list.lies_within(graph.num_edges)) continue;
    const int64_t from = min_of(skip, list.length()), to = min_of(from + left, list.length());
    begun += ask_for(graph, vertex, {list.begin + from, list.begin + to});
    skip -= from;
    left -= to - from;
  }
  return begun;
}

// The part of a long list that part_of() gives.
template <class Graph>
HINTERLAND_FN int64_t ask_for_part(const Graph& graph, const Task& task) {
  return ask_for_list(graph, task.vertex(), task.part() * kTaskEdges, (task.part() + 1) * kTaskEdges);
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

}  // namespace hinterland::graph
