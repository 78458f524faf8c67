// Sums over lists: what an iteration of PageRank, products with the adjacency matrix and the scores of
// include/hinterland/hotness share. Where the graph's weights are read, each value counts times its edge's weight.
#pragma once

#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

// A value as an edge of this weight carries it.
template <class Value, class Weight>
HINTERLAND_FN auto weighed(Value value, Weight weight) {
  if constexpr (stdlib::is_same_v<Weight, NoWeight>)
    return value;
  else
    return static_cast<double>(value) * static_cast<double>(weight);
}

// The sum of values[u] for every u in v's list, by a warp of one lane; or in a piece of it, where lists are plain.
template <class Graph, class List, class Values, class Counts>
HINTERLAND_FN double sum_over_list(const Graph& graph, int64_t vertex, const List& list, const Values& values, Counts& counts) {
  double sum = 0;
  if constexpr (requires { graph.edges; }) {
    auto edges = graph.edges.reader(list.begin, list.end);
    [[maybe_unused]] auto weights = graph.weights.reader(list.begin, list.end);
    graph.edges.count_run(list.begin, list.end, counts.meter);
    if constexpr (Graph::kWeighted) graph.weights.count_run(list.begin, list.end, counts.meter);
    for (int64_t i = list.begin; i < list.end; ++i) {
      const auto to = edges.read_alone(i);
      if (!graph.has(to)) [[unlikely]]
        counts.bad = min_of(counts.bad, vertex);
      else if constexpr (Graph::kWeighted)
        sum += weighed(values[to], weights.read_alone(i));
      else
        sum += static_cast<double>(values[to]);
    }
  } else {
    const auto lists = lists_of(graph, vertex, true, counts);
    auto add = [&](const auto& batch) {
      for (int k = 0; k < batch.kSize; ++k)
        if (batch.from[k] >= 0) sum += static_cast<double>(weighed(values[batch.to[k]], batch.weight[k]));
    };
    visit_chunks(graph, lists, vertex, 0, lists.chunks, add, counts);
  }
  return sum;
}

// A visitor: sums[v] += values[u] for every u in v's list, times the edge's weight if it is read; `values` is an array, or
// computes them. Chunks come in the order of lists, so most belong to the vertex of the chunk before: each lane then adds to
// its own part of that vertex's sum, and the parts meet when the vertex changes.
template <class Real, class Values = const Real*>
class SumOverLists {
 public:
  HINTERLAND_FN SumOverLists(Values values, Real* sums) : values_(values), sums_(sums) {}

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) {
    Real value[Batch::kSize];
    for (int k = 0; k < Batch::kSize; ++k)
      value[k] = batch.from[k] < 0 ? 0 : static_cast<Real>(weighed(values_[batch.to[k]], batch.weight[k]));
    if constexpr (Warp::kWidth == 1) {  // a batch is of one list
      int64_t owner = -1;
      double sum = 0;
      for (int k = 0; k < Batch::kSize; ++k) owner = max_of(owner, batch.from[k]), sum += static_cast<double>(value[k]);
      add(owner, sum);
    } else {
      for (int k = 0; k < Batch::kSize; ++k) add(batch.from[k], static_cast<double>(value[k]));
    }
  }

  // A piece of a plain list at once (visit.hpp). One of nothing, as of a list that the tasks before have read, is not the
  // task's first.
  template <class Graph, class Counts>
  HINTERLAND_APART void run(const Graph& graph, int64_t vertex, const Piece& run, Counts& counts) {
    if (run.length() == 0) return;
    const Values values = values_;  // a copy, which no store can change
    add(vertex, sum_over_list(graph, vertex, run, values, counts));
  }

  HINTERLAND_FN void end_task() {
    flush();
    is_first_ = true;
  }

 private:
  HINTERLAND_FN void flush() {
    if (owner_ < 0) return;
    const double sum = Warp::sum(part_);
    if (Warp::lane() == 0) atomic_add(sums_[owner_], static_cast<Real>(sum));
    leave();
  }

  // A warp of one lane goes through lists one by one, and all but the first and the last of a task are whole: nobody else adds
  // to their sums. There an atomic operation would have a CPU wait for every value before it asks for those of the next list.
  HINTERLAND_FN void end_list() {
    if (Warp::kWidth > 1 || is_first_) return flush();
    if (owner_ >= 0) sums_[owner_] += static_cast<Real>(part_);
    leave();
  }

  HINTERLAND_FN void leave() {
    is_first_ = is_first_ && owner_ < 0;
    owner_ = -1;
    part_ = 0;
  }

  HINTERLAND_FN void add(int64_t owner, double value) {
    if (Warp::any(owner >= 0 && owner != owner_)) {
      end_list();
      const uint32_t there = Warp::ballot(owner >= 0);
      owner_ = Warp::broadcast(owner, stdlib::countr_zero(there));
      if (Warp::any(owner >= 0 && owner != owner_)) return add_segments(owner, value);
    }
    part_ += value;
  }

  // A chunk of several lists: a sum for each run of lanes with the same vertex, which ends up in the run's first lane.
  HINTERLAND_FN void add_segments(int64_t owner, double value) {
    HINTERLAND_ROLLED
    for (int step = 1; step < Warp::kWidth; step *= 2) {
      const int other = min_of(Warp::lane() + step, Warp::kWidth - 1);
      const double above = Warp::broadcast(value, other);
      const int64_t its_owner = Warp::broadcast(owner, other);
      if (Warp::lane() + step < Warp::kWidth && its_owner == owner) value += above;
    }
    const int64_t before = Warp::broadcast(owner, max_of(Warp::lane() - 1, 0));
    if (owner >= 0 && (Warp::lane() == 0 || before != owner)) atomic_add(sums_[owner], static_cast<Real>(value));
    owner_ = -1;
  }

  Values values_;
  Real* sums_;
  int64_t owner_ = -1;  // the same in all lanes
  double part_ = 0;
  bool is_first_ = true;  // of the task's lists
};

}  // namespace hinterland::graph
