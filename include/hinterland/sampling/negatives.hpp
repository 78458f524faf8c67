// Pairs of vertices that are no edges, for link prediction: each uniform among all of them, or among those of a given source.
//
// A lane draws a pair. It tries pairs of different vertices, and looks each up in the source's sorted list by bisection. Where
// kNegativeTries fail, so in a graph that is nearly complete or for a source that is, the pairs that are left are counted and
// one of them is drawn by its number. What a draw is conditional on does not depend on the way, so it is uniform in both.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/sampling/draw.hpp"
#include "hinterland/sampling/lists.hpp"

namespace hinterland::sampling {

struct NegativeControl {
  TeamControl team;
  int64_t bad_source,
      full_source;   // the smallest pair whose source is no vertex, and that no pair is left for; or kNone
  int64_t bad_list;  // the smallest vertex with a broken list, or kNone
  int64_t left;      // pairs that no try found
};

// What a phase is given.
struct NegativeParams {
  const graph::GraphWords* graph;
  int64_t phase;  // NegativePhase
  uint64_t seed, batch;
  int64_t count;
  int64_t each;              // pairs of one source
  const int64_t* sources;    // pair i has sources[i / each]; null to draw sources as well
  int64_t exact;             // 0: pairs are not looked up
  int64_t *source, *target;  // [count]; the target is -1 where no try found one
  int64_t* absent;  // [num_vertices + 1]: how many are missing in each list, after which Python adds up those before each
  NegativeControl* control;
};

// The list of one vertex, and what is not in it. A lane searches it alone: lanes search lists of different lengths, at
// different tries.
template <class Graph>
class Absent {
 public:
  HINTERLAND_FN Absent(const Graph& graph, int64_t vertex, graph::StepCounts<>& counts) : graph_(graph), counts_(counts) {
    const auto bounds = graph::ListBounds::alone(graph, vertex, counts);
    list_ = {vertex, bounds.begin, bounds.end - bounds.begin};
  }

  HINTERLAND_FN bool lists(int64_t vertex) const {
    int64_t from = 0, until = list_.degree;  // those before `from` are less, those from `until` on are not
    while (from < until) {
      const int64_t middle = from + (until - from) / 2;
      if (neighbor(middle) < vertex)
        from = middle + 1;
      else
        until = middle;
    }
    return from < list_.degree && neighbor(from) == vertex;
  }

  // Has what lists() looks at first read ahead: a short list, or the middle of a long one.
  HINTERLAND_FN int64_t ask() const {
    if (list_.degree <= graph::kTaskEdges) return graph::ask_for_list(graph_, list_.vertex, 0, graph::kTaskEdges);
    return ask_for_neighbor(graph_, list_, list_.degree / 2);
  }

  HINTERLAND_FN int64_t count() const {
    int64_t left = graph_.num_vertices;
    find(left);
    return graph_.num_vertices - left;
  }

  // Number `i` of the vertices, in order, that are neither in the list nor its own.
  HINTERLAND_FN int64_t at(int64_t i) const { return find(i); }

 private:
  HINTERLAND_FN int64_t neighbor(int64_t i) const {
    const int64_t found = neighbor_alone(graph_, list_, i);
    if (graph_.has(found)) return found;
    counts_.bad = min_of(counts_.bad, list_.vertex);
    return -1;
  }

  // at(i), or -1 if there are no more than `i`: then `i` is less by how many there are.
  HINTERLAND_FN int64_t find(int64_t& i) const {
    int64_t next = 0;  // the vertices before it have been looked at
    const auto pass = [&](int64_t present) {
      const int64_t gap = present - next;
      if (gap >= 0 && i < gap) return true;
      if (gap >= 0) i -= gap, next = present + 1;
      return false;
    };
    bool own = false;
    for (int64_t k = 0; k <= list_.degree; ++k) {
      const int64_t present = k < list_.degree ? neighbor(k) : graph_.num_vertices;
      if (!own && present > list_.vertex) {
        own = true;
        if (pass(list_.vertex)) return next + i;
      }
      if (pass(present)) return next + i;
    }
    return -1;
  }

  const Graph& graph_;
  graph::StepCounts<>& counts_;
  ListPlace list_;
};

enum NegativePhase : int64_t { kTryPairs, kCountAbsent, kPickAbsent };

// One phase: tries, and where sources are given what follows when they fail; the count of what is missing in each list; the
// pairs that tries have left, by these counts. The last two do nothing where none are left: in a CUDA graph they follow in any
// case. Called by all threads of a team.
template <class Graph, class Team>
HINTERLAND_FN void negative_edges(Team& team, const NegativeParams& task) {
  const Graph graph(*task.graph);
  const int64_t phase = task.phase, vertices = graph.num_vertices;
  if (phase != kTryPairs && task.control->left == 0) return;
  team.static_for(phase == kCountAbsent ? vertices : task.count, [&](const auto& ranges) {
    const Draws draws(task.seed, task.batch, Draws::kNegatives);
    graph::StepCounts<> counts;
    // The source of pair i, if none is given as a draw has it.
    const auto source_of = [&](int64_t i, const Philox::Block& draw) {
      if (task.sources != nullptr) return task.sources[i / task.each];
      return static_cast<int64_t>(Philox::multiply_high(draw.half(0), static_cast<uint64_t>(vertices)));
    };
    const auto try_pair = [&](int64_t i) {
      const uint64_t place = static_cast<uint64_t>(i);
      int64_t source = task.sources == nullptr ? -1 : task.sources[i / task.each];
      task.source[i] = source;
      task.target[i] = -1;
      if (task.sources != nullptr && !graph.has(source)) {
        atomic_min(task.control->bad_source, i);
        return;
      }
      for (int64_t draw = 0; draw < kNegativeTries; ++draw) {
        const Philox::Block block = draws.bits(place, static_cast<uint64_t>(draw));
        if (task.sources == nullptr) source = source_of(i, block);
        int64_t target = static_cast<int64_t>(Philox::multiply_high(block.half(1), static_cast<uint64_t>(vertices - 1)));
        target += target >= source;
        if (task.exact != 0 && Absent<Graph>(graph, source, counts).lists(target)) continue;
        task.source[i] = source;
        task.target[i] = target;
        return;
      }
      if (task.sources == nullptr) {
        atomic_add(task.control->left, int64_t{1});
        return;
      }
      const Absent<Graph> absent(graph, source, counts);
      const int64_t choices = absent.count();
      if (choices == 0)
        atomic_min(task.control->full_source, i);
      else
        task.target[i] = absent.at(draws.below(choices, place, kNegativeTries));
    };
    const auto pick = [&](int64_t i) {
      if (task.target[i] >= 0) return;
      if (task.absent[vertices] == 0) {
        atomic_min(task.control->full_source, i);
        return;
      }
      const int64_t number = draws.below(task.absent[vertices], static_cast<uint64_t>(i), kNegativeTries);
      int64_t from = 0, until = vertices;  // absent[from] <= number < absent[until]
      while (until - from > 1) {
        const int64_t middle = from + (until - from) / 2;
        (task.absent[middle] <= number ? from : until) = middle;
      }
      task.source[i] = from;
      task.target[i] = Absent<Graph>(graph, from, counts).at(number - task.absent[from]);
    };
    graph::Ahead<Graph> ahead(graph);
    const auto ask = [&](int64_t i) {
      if (phase == kCountAbsent) return graph::ask_for_list(graph, i, 0, graph::kTaskEdges);
      if (phase != kTryPairs || task.exact == 0) return int64_t{0};
      const int64_t source = source_of(i, draws.bits(static_cast<uint64_t>(i), 0));
      return graph.has(source) ? Absent<Graph>(graph, source, counts).ask() : 0;
    };
    ranges([&](int64_t first, int64_t last) {
      for (int64_t i = first + Warp::lane(); i < last; i += Warp::kWidth) {
        ahead(i, phase == kCountAbsent ? vertices : task.count, ask);
        if (phase == kTryPairs)
          try_pair(i);
        else if (phase == kCountAbsent)
          task.absent[i] = Absent<Graph>(graph, i, counts).count();
        else
          pick(i);
      }
    });
    if (counts.bad != kNone) atomic_min(task.control->bad_list, counts.bad);
  });
}

}  // namespace hinterland::sampling
