// Breadth-first search on the CPU: the levels and parents of include/hinterland/graph/bfs.hpp, by loops of one lane.
//
// What differs is how things are kept.
//   A vertex has one word, its level above its parent. The least word that any edge offers is what both shall be, so an edge
// costs
//   one look, and a change where it offers less. The words lie where the parents will.
//   A level that is pushed is a list of vertices, as a thread reads one list of neighbours after the other anyway. Large ones
//   ascend, so that what is read of offsets, edges and words follows each other in memory.
//   A level that is pulled is a bitmap.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/parallel.hpp"
#include "core/team.hpp"
#include "hinterland/graph/bfs.hpp"

namespace hinterland::native {

template <class Graph>
class ListSearch {
 public:
  using Id = uint32_t;
  using State = graph::BfsState<Id>;

  // `words` and `listed` have room for each vertex of the graph.
  ListSearch(const Graph& graph, const Graph* incoming, const State& state, uint64_t* words, Id* listed)
      : graph_(graph),
        incoming_(incoming),
        state_(state),
        words_(words),
        listed_(listed),
        front_(state.frontier.current),
        next_(state.frontier.next) {}

  void run(int64_t source) {
    each_piece([&](int64_t begin, int64_t end) { std::fill(words_ + begin, words_ + end, kUnset); });
    frontier().begin();
    words_[source] = word(0, source);
    listed_[0] = static_cast<Id>(source);
    found_ = 1;
    found_edges_ = degree(source);
    for (int64_t depth = 0; found_ != 0; ++depth) step(depth);
    frontier().end(team_.now_ns());
  }

  // The results, which take the place of the words.
  void finish(int32_t* levels, int64_t* parents) {
    each_piece([&](int64_t begin, int64_t end) {
      for (int64_t vertex = begin; vertex < end; ++vertex) {
        const uint64_t found = words_[vertex];
        levels[vertex] = static_cast<int32_t>(found >> 32);
        parents[vertex] = static_cast<int32_t>(found);  // an unset word is -1 twice
      }
    });
  }

 private:
  using Counts = graph::CountsOf<Graph>;
  static constexpr uint64_t kUnset = ~uint64_t{0};
  static constexpr int64_t kAscendFrom = 64;  // a level ascends if it has one vertex in so many: docs/notes/bfs-on-cpu.md
  static constexpr int64_t kFewEdges = 256;   // one edge in so many is pushed without asking: docs/notes/thresholds.md

  static uint64_t word(int64_t level, int64_t parent) {
    return static_cast<uint64_t>(level) << 32 | static_cast<uint32_t>(parent);
  }
  static bool is_at(uint64_t found, int64_t depth) { return static_cast<int64_t>(found >> 32) == depth; }

  const graph::Frontier& frontier() const { return state_.frontier; }

  // Levels of so many vertices ascend: they are made bitmaps, and counted, and listed again if they are pushed.
  int64_t large() const { return ceil_div(graph_.num_vertices, kAscendFrom); }

  // body(begin, end) for pieces of the vertices, in whole groups.
  template <class Body>
  void each_piece(const Body& body) {
    static_assert(ThreadTeam::kPiece % graph::kGroup == 0);
    team_.pieces_for(graph_.num_vertices, body);
  }

  void step(int64_t depth) {
    frontier().begin_step(depth, team_.now_ns());
    const bool is_large = as_list_ && found_ >= large();
    if (is_large) map(depth);
    frontier().control->vertices[depth % 2] = found_;
    frontier().control->edges[depth % 2] = found_edges_;
    frontier().begin_visit(depth, 0, team_.now_ns());
    const int64_t vertices = std::exchange(found_, 0), edges = frontier().edges(depth);
    found_edges_ = 0;
    if (frontier().reached(depth) == graph_.num_vertices) return;  // no edge finds another vertex
    if (incoming_ != nullptr && edges * kFewEdges > graph_.num_edges && pulls(depth)) {
      if (as_list_ && !is_large) map_list(vertices);
      as_list_ = false;
      pull(depth);
    } else {
      if (is_large) end_ -= vertices;
      if (is_large || !as_list_) list_bitmap();
      as_list_ = true;
      push(depth, vertices);
    }
  }

  // Whether pulling is likely to take less time. Costs are in edges that a pull looks at, which lie one after the other; what a
  // push looks at does not: docs/notes/bfs-on-cpu.md.
  bool pulls(int64_t depth) const {
    constexpr double kPushed = 4, kList = 3, kVertex = 0.5;
    const double pushed = static_cast<double>(frontier().edges(depth));
    const double left = std::max(0.0, static_cast<double>(incoming_->num_edges - frontier().explored(depth)));
    const double unvisited =
        std::max(1.0, static_cast<double>(incoming_->num_vertices - incoming_->num_isolated - frontier().reached(depth)));
    const double share = pushed / std::max(1.0, pushed + left);
    const double examined = std::min(left, unvisited / std::max(share, 1e-9));
    return examined + kList * unvisited + kVertex * static_cast<double>(graph_.num_vertices) < kPushed * pushed;
  }

  // Offsets that were changed may give any number; what comes of that is reported as the list is read.
  int64_t degree(int64_t vertex) const { return std::clamp<int64_t>(graph_.degree(vertex), 0, graph_.num_edges); }

  // What a thread finds of the next level by pulling, added up at its end.
  struct Found {
    ListSearch& search;
    int64_t vertices = 0, edges = 0;

    void add(int64_t vertex) {
      ++vertices;
      edges += search.degree(vertex);
    }
    void finish() const {
      atomic_add(search.found_, vertices);
      atomic_add(search.found_edges_, edges);
    }
  };

  // Where a thread lists vertices of a level, after all that are listed. Edges out of them are counted as they are put there:
  // by all threads at once, and the next step begins with asking for their number.
  struct LevelQueue : graph::AppendQueue<Id> {
    const ListSearch& search;
    int64_t counted;  // places of the list whose edges are: those before this one
    int64_t& edges;

    void put(int64_t place, Id vertex) const {
      graph::AppendQueue<Id>::put(place, vertex);
      if (place < counted) edges += search.degree(vertex);
    }
  };

  // body(list) in a thread that appends to the list, whose length is `count`. Edges are counted once for a level: of a small
  // one as it is found, of a large one as its bitmap is made, of one that was pulled by Found.
  template <class Body>
  void listing(int64_t& count, int64_t counted, const Body& body) {
    int64_t edges = 0;
    {
      auto list = team_.appender(LevelQueue{{listed_ + end_, &count, graph_.num_vertices - end_}, *this, counted, edges});
      body(list);
    }
    if (edges != 0) atomic_add(found_edges_, edges);
  }

  // What edges offer. Where one thread does all of it, kShared is false: an atomic update makes a processor wait for all that
  // it has under way.
  template <bool kShared, class Next>
  struct Push {
    uint64_t* words;
    int64_t level;
    Next& next;

    template <class Batch>
    void operator()(const Batch& batch) const {
      for (int k = 0; k < Batch::kSize; ++k)
        if (batch.from[k] >= 0) offer(word(level, batch.from[k]), batch.to[k]);
    }

   private:
    // Without branches but for the one that spares an atomic update: which edges discover no processor can guess.
    void offer(uint64_t offered, int64_t to) const {
      uint64_t known = atomic_load(words[to]);
      if constexpr (!kShared)
        words[to] = std::min(known, offered);
      else if (known > offered)
        known = atomic_min(words[to], offered);
      next.append_if(known == kUnset, static_cast<Id>(to));
    }
  };

  // body(push, counts) in each thread, with what it needs to visit edges out of level `depth`.
  template <class Body>
  void pushing(int64_t depth, const Body& body) {
    Counts counts;
    listing(found_, large(), [&](auto& next) {
      const auto with = [&]<bool kShared>() {
        Push<kShared, stdlib::remove_reference_t<decltype(next)>> push{words_, depth + 1, next};
        body(push, counts);
      };
      team_.threads() == 1 ? with.template operator()<false>() : with.template operator()<true>();
    });
    counts.add_to(frontier(), depth);
  }

  void push(int64_t depth, int64_t vertices) {
    const Id* const list = listed_ + end_ - vertices;
    team_.static_for(vertices, [&](const auto& ranges) {
      auto parts = team_.appender(frontier().part_queue(depth));
      // A thread's own: words that are written could be the graph's, for all the compiler knows.
      const Graph own_graph = graph_;
      graph::Ahead<Graph> ahead(own_graph);
      pushing(depth, [&](auto& push, Counts& counts) {
        ranges([&](int64_t i, int64_t) {
          ahead(i, vertices, [&](int64_t k) { return ask_for_list(own_graph, list[k], 0, graph::kTaskEdges); });
          const int64_t vertex = list[i];
          const auto own = lists_of(own_graph, vertex, true, counts);
          if (own.length() <= graph::kTaskEdges) return visit_chunks(own_graph, own, vertex, 0, own.chunks, push, counts);
          for (int64_t k = 0; k * graph::kTaskChunks < own.chunks; ++k) parts.append(graph::Task::of(vertex, k));
        });
      });
    });
    if (const int64_t parts = frontier().num_parts(depth); parts != 0) push_parts(depth, parts);
    end_ += found_;
  }

  // Long lists, shared by all threads.
  void push_parts(int64_t depth, int64_t num_parts) {
    team_.dynamic_for(num_parts, [&](const auto& items) {
      graph::Ahead<Graph> ahead(graph_);
      pushing(depth, [&](auto& push, Counts& counts) {
        items([&](int64_t i) {
          ahead(i, num_parts, [&](int64_t part) { return ask_for_part(graph_, frontier().tasks[part]); });
          const graph::Task part = frontier().tasks[i];
          const auto own = lists_of(graph_, part.vertex(), true, counts);
          const int64_t from = part.first_chunk();
          visit_chunks(graph_, own, part.vertex(), from, std::min(from + graph::kTaskChunks, own.chunks), push, counts);
        });
      });
    });
  }

  auto in_front() const {
    return [front = front_](uint64_t u) { return (front[u / graph::kGroup] >> u % graph::kGroup & 1u) != 0; };
  }

  void pull(int64_t depth) {
    frontier().record(depth).pulled = 1;
    const int64_t groups = frontier().num_groups;
    team_.dynamic_for(ceil_div<int64_t>(groups, graph::kPullGroups), [&](const auto& items) {
      auto parts = team_.appender(frontier().part_queue(depth));
      Found found{*this};
      Counts counts;
      const Graph incoming = *incoming_;  // a thread's own, as above
      graph::Ahead<Graph> ahead(incoming);
      const int64_t end = ceil_div<int64_t>(groups, graph::kPullGroups);
      items([&](int64_t i) {
        ahead(i, end, [&](int64_t item) { return ask_for_pull(incoming, item); });
        const int64_t last = std::min((i + 1) * graph::kPullGroups, groups);
        for (int64_t group = i * graph::kPullGroups; group < last; ++group)
          next_[group] = pull_group(incoming, group, depth + 1, parts, found, counts);
      });
      found.finish();
      counts.add_to(frontier(), depth);
    });
    if (const int64_t parts = frontier().num_parts(depth); parts != 0) pull_parts(depth, parts);
    std::swap(front_, next_);
  }

  // What the unvisited vertices of some groups look through first. Other threads may be finding these at the time.
  int64_t ask_for_pull(const Graph& incoming, int64_t item) const {
    int64_t begun = 0;
    const int64_t begin = item * graph::kPullGroups * graph::kGroup;
    const int64_t end = std::min(begin + graph::kPullGroups * graph::kGroup, graph_.num_vertices);
    for (int64_t vertex = begin; vertex < end; ++vertex)
      if (atomic_load(words_[vertex]) == kUnset) begun += ask_for_list(incoming, vertex, 0, graph::kLookedThrough);
    return begun;
  }

  // Which vertices of a group are in level `level`, found by looking for a parent in the one before.
  template <class Parts>
  uint32_t pull_group(const Graph& incoming, int64_t group, int64_t level, Parts& parts, Found& found, Counts& counts) const {
    uint32_t bits = 0;
    for_each_bit(group, words_that(group, [](uint64_t word) { return word == kUnset; }), [&](int64_t vertex) {
      const auto list = graph::ListBounds::alone(incoming, vertex, counts);
      const int64_t length = list.end - list.begin;
      if (length > graph::kTaskEdges) {
        for (int64_t k = 0; k * graph::kTaskEdges < length; ++k) parts.append(graph::Task::of(vertex, k));
        return;
      }
      const int64_t parent = find_neighbor(incoming, vertex, list.begin, list.end, in_front(), counts);
      if (parent < 0) return;
      atomic_store(words_[vertex], word(level, parent));
      bits |= graph::bit_of(vertex);
      found.add(vertex);
    });
    return bits;
  }

  void pull_parts(int64_t depth, int64_t num_parts) {
    team_.dynamic_for(num_parts, [&](const auto& items) {
      Found found{*this};
      Counts counts;
      graph::Ahead<Graph> ahead(*incoming_);
      items([&](int64_t i) {
        ahead(i, num_parts, [&](int64_t part) { return ask_for_part(*incoming_, frontier().tasks[part]); });
        const int64_t vertex = frontier().tasks[i].vertex();
        const graph::Piece part = part_of(*incoming_, frontier().tasks[i]);
        const int64_t parent = find_neighbor(*incoming_, vertex, part.begin, part.end, in_front(), counts);
        if (parent < 0 || atomic_min(words_[vertex], word(depth + 1, parent)) != kUnset) return;
        atomic_or(next_[graph::group_of(vertex)], graph::bit_of(vertex));
        found.add(vertex);
      });
      found.finish();
      counts.add_to(frontier(), depth);
    });
  }

  // Which words of a group test(word) holds for. Eight answers, a byte each, become eight bits by one product.
  template <class Test>
  uint32_t words_that(int64_t group, const Test& test) const {
    const int64_t begin = group * graph::kGroup, count = std::min<int64_t>(graph::kGroup, graph_.num_vertices - begin);
    uint8_t holds[graph::kGroup] = {};
    if (count == graph::kGroup)
      for (int64_t i = 0; i < graph::kGroup; ++i) holds[i] = test(words_[begin + i]);  // several at once
    else
      for (int64_t i = 0; i < count; ++i) holds[i] = test(words_[begin + i]);
    uint32_t bits = 0;
    for (int i = 0; i < graph::kGroup; i += 8) {
      uint64_t eight;
      std::memcpy(&eight, holds + i, 8);
      bits |= static_cast<uint32_t>(eight * 0x0102040810204080 >> 56) << i;
    }
    return bits;
  }

  template <class Body>
  static void for_each_bit(int64_t group, uint32_t bits, const Body& body) {
    for (; bits != 0; bits &= bits - 1) body(group * graph::kGroup + stdlib::countr_zero(bits));
  }

  // body(group) for the groups of vertices [begin, end).
  template <class Body>
  static void each_group(int64_t begin, int64_t end, const Body& body) {
    for (int64_t group = begin / graph::kGroup; group * graph::kGroup < end; ++group) body(group);
  }

  // The bitmap of level `depth`, by its words, and how many edges lead out of it.
  void map(int64_t depth) {
    found_edges_ = 0;
    each_piece([&](int64_t begin, int64_t end) {
      int64_t edges = 0;
      each_group(begin, end, [&](int64_t group) {
        front_[group] = words_that(group, [depth](uint64_t word) { return is_at(word, depth); });
        for_each_bit(group, front_[group], [&](int64_t vertex) { edges += degree(vertex); });
      });
      if (edges != 0) atomic_add(found_edges_, edges);
    });
  }

  // The bitmap of a small level, by its list.
  void map_list(int64_t vertices) {
    each_piece([&](int64_t begin, int64_t end) { each_group(begin, end, [&](int64_t group) { front_[group] = 0; }); });
    const Id* const list = listed_ + end_ - vertices;
    team_.static_for(vertices, [&](const auto& ranges) {
      ranges([&](int64_t i, int64_t) { atomic_or(front_[graph::group_of(list[i])], graph::bit_of(list[i])); });
    });
  }

  // Lists the bitmap, ascending within each piece, after all that is listed.
  void list_bitmap() {
    int64_t taken = 0;
    each_piece([&](int64_t begin, int64_t end) {
      listing(taken, 0, [&](auto& list) {
        each_group(begin, end, [&](int64_t group) {
          for_each_bit(group, front_[group], [&](int64_t vertex) { list.append(static_cast<Id>(vertex)); });
        });
      });
    });
    end_ += taken;
  }

  const Graph& graph_;
  const Graph* incoming_;
  const State& state_;
  uint64_t* words_;
  Id* listed_;
  uint32_t *front_, *next_;  // bitmaps of a level that is pulled, and of the one that is found
  bool as_list_ = true;      // the level is the last of the lists
  int64_t end_ = 1;          // of the lists
  int64_t found_ = 0, found_edges_ = 0;
  ThreadTeam team_;
};

}  // namespace hinterland::native
