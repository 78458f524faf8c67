// Shortest and widest paths on CPU threads: delta-stepping with bins of their own for all threads, which go on with what they
// find in a bucket (Zhang et al., "Optimizing ordered graph algorithms with GraphIt", CGO 2020). What keys are, and how an edge
// extends them, is in hinterland/graph/sssp.hpp.
//
// A thread puts each vertex whose key it lowers into a bin, by the key. A bucket is some bins that follow each other: what they
// hold is cut into pieces, which threads take as they come free. What a thread finds within the bucket it goes on with at once,
// as long as that is little; more than that is shared out again. So most buckets are one loop, where they would be many steps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/team.hpp"
#include "core/thresholds.hpp"
#include "graph/bind_views.hpp"
#include "hinterland/graph/sssp.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(graph::PathParams, graph, source, keys, scratch, delta, light);
HINTERLAND_STRUCT(graph::FarSide, least, groups);
HINTERLAND_STRUCT(graph::StepTurn, groups, heavy, edges);
HINTERLAND_STRUCT(graph::PathControl, far, buckets, padding0, turns, padding1);

template <class Policy, class Graph>
class BinnedPaths {
 public:
  using State = graph::PathState<Policy>;
  using Key = typename Policy::Key;
  using Vertex = typename Graph::Edge;

  BinnedPaths(ThreadTeam& team, const Graph& graph, const State& state, const graph::BucketWidth& width)
      : team_(team),
        graph_(graph),
        state_(state),
        width_(width),
        own_(ceil_div(kOwnEdges * graph.num_vertices, graph.num_edges + 1)),
        finders_(team.threads()) {}

  void run(int64_t source, Key key) {
    const graph::Frontier& frontier = state_.frontier;
    frontier.begin();
    state_.keys[source] = key;
    bins_begin_at(key);
    finders_[0].bins[0].push_back({static_cast<Vertex>(source), key});
    int64_t step = 0, buckets = 0;
    for (int64_t bin = 0; (bin = first_filled(bin)) >= 0; bin = bucket_end_, ++buckets) {
      bucket_end_ = std::min(bin + bins_in(width_.delta()), kLastBin);
      hand_out([&](auto&& take) {
        for (int64_t b = bin; b < bucket_end_; ++b)
          for (Finder& finder : finders_) take(finder.bins[b]);
      });
      for (; !pieces_.empty(); ++step) {
        visit_pieces(step);
        hand_out([&](auto&& take) {
          for (Finder& finder : finders_) take(finder.near);
        });
      }
      width_.adapt(frontier.explored(step - 1));
    }
    state_.path->buckets = buckets - 1;  // after the first
    frontier.end(team_.now_ns());
  }

 private:
  using Reached = graph::Reached<Vertex, Key>;
  using List = std::vector<Reached>;

  struct Piece {
    const Reached* first;
    int64_t count;
  };

  // What one thread has found.
  struct alignas(64) Finder {
    List bins[kLastBin + 1];
    List near, going;  // within the bucket: to be visited, and being visited
  };

  // Lowers the keys of the neighbours of a vertex that has `key`.
  struct Relax {
    const BinnedPaths& paths;
    Finder& finder;
    Key key;

    template <class Batch>
    void operator()(const Batch& batch) {
      for (int k = 0; k < Batch::kSize; ++k) {
        if (batch.from[k] < 0) continue;
        Key& place = paths.state_.keys[batch.to[k]];
        const Key offer = Policy::extend(key, batch.weight[k]);
        if (offer >= atomic_load(place) || offer >= atomic_min(place, offer)) continue;
        const int64_t bin = paths.bin_of(offer);
        (bin < paths.bucket_end_ ? finder.near : finder.bins[bin]).push_back({static_cast<Vertex>(batch.to[k]), offer});
      }
    }
  };

  bool is_current(const Reached& reached) const { return atomic_load(state_.keys[reached.vertex]) == reached.key; }

  int64_t bins_in(double span) const {
    const double bins = span * bins_per_key_;  // of an endless bucket: not a number
    return bins < static_cast<double>(kLastBin) ? std::max(int64_t{1}, static_cast<int64_t>(bins)) : kLastBin;
  }
  int64_t bin_of(Key key) const {
    const double bin = Policy::between(base_, key) * bins_per_key_;
    return bin < static_cast<double>(kLastBin) ? static_cast<int64_t>(bin) : kLastBin;
  }

  void bins_begin_at(Key base) {
    base_ = base;
    bins_per_key_ = 1 / std::max(width_.first(), width_.delta() / kBinsInBucket);
  }

  // The first bin from `bin` on that holds something, or -1.
  int64_t first_filled(int64_t bin) {
    for (; bin < kLastBin; ++bin)
      for (const Finder& finder : finders_)
        if (!finder.bins[bin].empty()) return bin;
    return deal_last() ? 0 : -1;
  }

  // What lies beyond all bins is dealt out to them, from the least key on. False where there is nothing.
  bool deal_last() {
    Key least = Policy::kUnset;
    std::vector<List> lists;
    for (Finder& finder : finders_) {
      lists.push_back(std::exchange(finder.bins[kLastBin], {}));
      for (const Reached& reached : lists.back())
        if (is_current(reached)) least = std::min(least, reached.key);
    }
    if (least == Policy::kUnset) return false;
    bins_begin_at(least);
    for (size_t i = 0; i < lists.size(); ++i)
      for (const Reached& reached : lists[i])
        if (is_current(reached)) finders_[i].bins[bin_of(reached.key)].push_back(reached);
    return true;
  }

  // Cuts the lists that each_list hands to its argument into pieces; they are empty then.
  template <class EachList>
  void hand_out(const EachList& each_list) {
    for (List& list : handed_out_) {
      list.clear();
      spare_.push_back(std::move(list));
    }
    handed_out_.clear();
    pieces_.clear();
    each_list([&](List& list) {
      if (list.empty()) return;
      List spare;
      if (!spare_.empty()) {
        spare = std::move(spare_.back());
        spare_.pop_back();
      }
      handed_out_.push_back(std::exchange(list, std::move(spare)));
      List& taken = handed_out_.back();
      in_order_of_edges(taken);
      const int64_t size = static_cast<int64_t>(taken.size());
      for (int64_t i = 0; i < size; i += kPathPiece) pieces_.push_back({taken.data() + i, std::min(kPathPiece, size - i)});
    });
  }

  void visit_pieces(int64_t step) {
    const graph::Frontier& frontier = state_.frontier;
    const int64_t num_pieces = static_cast<int64_t>(pieces_.size());
    const int64_t now = team_.now_ns();
    frontier.begin_step(step, now);
    frontier.begin_visit(step, num_pieces, now);
    const bool alone = team_.threads() == 1;
    team_.dynamic_for(num_pieces, [&](const auto& items) {
      Finder& finder = finders_[team_.thread()];
      graph::CountsOf<Graph> counts;
      graph::Ahead<Graph> ahead(graph_);
      items([&](int64_t i) {
        ahead(i, num_pieces, [&](int64_t k) { return ask_for(pieces_[k]); });
        visit(pieces_[i], finder, counts);
      });
      while (!finder.near.empty() && (alone || static_cast<int64_t>(finder.near.size()) <= own_)) {
        finder.going.swap(finder.near);
        finder.near.clear();
        in_order_of_edges(finder.going);
        visit_going(finder, counts);
      }
      counts.add_to(frontier, step);
    });
  }

  template <class Counts>
  void visit_going(Finder& finder, Counts& counts) const {
    const int64_t size = static_cast<int64_t>(finder.going.size()), pieces = ceil_div(size, kPathPiece);
    const auto piece = [&](int64_t i) {
      return Piece{finder.going.data() + i * kPathPiece, std::min(kPathPiece, size - i * kPathPiece)};
    };
    graph::Ahead<Graph> ahead(graph_);
    for (int64_t i = 0; i < pieces; ++i) {
      ahead(i, pieces, [&](int64_t k) { return ask_for(piece(k)); });
      visit(piece(i), finder, counts);
    }
  }

  // Where pages are read for it, a bucket is visited as its lists lie: what their order is changes no key.
  void in_order_of_edges(List& list) const {
    if constexpr (graph::kReadsAhead<Graph>)
      if (graph::most_ahead(graph_) > 0)
        std::sort(list.begin(), list.end(), [](const Reached& a, const Reached& b) { return a.vertex < b.vertex; });
  }

  int64_t ask_for(const Piece& piece) const {
    int64_t begun = 0;
    for (int64_t i = 0; i < piece.count; ++i)
      if (is_current(piece.first[i])) begun += ask_for_list(graph_, piece.first[i].vertex, 0, graph::kTaskEdges);
    return begun;
  }

  template <class Counts>
  void visit(const Piece& piece, Finder& finder, Counts& counts) const {
    Relax relax{*this, finder, Key{}};
    for (int64_t i = 0; i < piece.count; ++i) {
      if (i + kPathsAhead < piece.count) ask_for_offsets(piece.first[i + kPathsAhead].vertex);
      if (i + kPathsAhead / 2 < piece.count) ask_for_edges(piece.first[i + kPathsAhead / 2].vertex);
      const Reached& reached = piece.first[i];
      if (!is_current(reached)) continue;
      const auto list = graph::lists_of(graph_, reached.vertex, true, counts);
      counts.vertices += 1;
      counts.edges += list.length();
      relax.key = reached.key;
      graph::visit_chunks(graph_, list, reached.vertex, 0, list.chunks, relax, counts);
    }
  }

  void ask_for_offsets(Vertex vertex) const {
    __builtin_prefetch(state_.keys + vertex);
    if constexpr (requires { graph_.offsets.prefetch(vertex); }) graph_.offsets.prefetch(vertex);
  }

  void ask_for_edges(Vertex vertex) const {
    if constexpr (requires { graph_.edges.prefetch(0, 0); }) {
      const graph::Piece list = graph_.offsets.list_alone(vertex);
      const int64_t end = std::min(list.end, list.begin + kPathEdgesAhead);
      graph_.edges.prefetch(list.begin, end);
      graph_.weights.prefetch(list.begin, end);
    }
  }

  ThreadTeam& team_;
  const Graph& graph_;
  const State& state_;
  graph::BucketWidth width_;
  int64_t own_;                   // vertices that a thread goes on with by itself
  std::vector<Finder> finders_;   // one for each thread
  Key base_{};                    // where the bins begin
  double bins_per_key_ = 0;       // one over how wide a bin is
  int64_t bucket_end_ = 0;        // the bin after the bucket's last
  std::vector<List> handed_out_;  // what the pieces are parts of
  std::vector<List> spare_;       // empty, but with memory: what was handed out before
  std::vector<Piece> pieces_;
};

template <template <class> class Policy>
void find_paths(const graph::PathParams& p, WeightKind kind) {
  with_weighted_graph(*p.graph, kind, [&](const auto& graph) {
    using Weight = typename std::decay_t<decltype(graph)>::Weight;
    using Key = typename Policy<Weight>::Key;
    const graph::PathState<Policy<Weight>> state(p, graph.num_vertices, graph.num_edges);
    const Key source = kind.order == 0 ? static_cast<Key>(Policy<uint8_t>::source()) : Policy<Weight>::source();
    ThreadTeam team;
    BinnedPaths<Policy<Weight>, std::decay_t<decltype(graph)>>(team, graph, state, {p.delta, p.light}).run(p.source, source);
  });
}

}  // namespace hinterland::native
