// Random walks: from each start a walk that goes on to a neighbour of where it is, drawn uniformly or in proportion to weight,
// or, with a probability, back to its start (Tong, Faloutsos, Pan, "Fast random walk with restart", ICDM 2006).
//
// A lane makes a walk. Each step waits for two requests, one after the other: where the list lies, and the neighbour; walks do
// not wait for each other. A GPU has enough of them in flight as it has lanes. A CPU's thread makes a few walks side by side,
// each phase of a step for all of them, so that it waits for several reads at once; more of them where a read takes long.
//
// A weighted step tries positions as choose.hpp does with replacement, and where all trials fail the lanes of the warp together
// go through the list and take the least key, which is the same distribution.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/core/thresholds.hpp"
#include "hinterland/sampling/choose.hpp"

namespace hinterland::sampling {

inline constexpr int64_t kMostSteps = (int64_t{1} << (64 - Draws::kPlaceBits)) - 1;  // of a walk: see WalkDraws::place()

struct WalkControl {
  TeamControl team;
  int64_t bad_start, bad_list;  // the smallest walk whose start is no vertex, the smallest vertex with a broken list; or kNone
};

// What a call is given.
struct WalkParams {
  const graph::GraphWords* graph;
  uint64_t seed, batch;
  int64_t first;              // the first walk's number; each number has draws of its own
  int64_t num_walks, length;  // length is at most kMostSteps
  double restart;
  int64_t weights;  // WeightKind
  double most_weight;
  const int64_t* starts;
  int64_t* walks;  // [num_walks, length + 1]
  WalkControl* control;
};

// How one step of any walk is drawn. Its place is the walk and the step; draw 0 decides on the restart and draws a neighbour
// where all are alike, then come the trials, and from kRace on the keys.
template <class Graph>
class WalkDraws {
 public:
  HINTERLAND_FN WalkDraws(const Graph& graph, const WalkParams& task)
      : graph_(graph),
        weights_(*task.graph, task.weights),
        rule_{true, false, nullptr, nullptr, task.most_weight, 0},
        draws_(task.seed, task.batch, Draws::kWalks),
        restart_(task.restart) {}

  HINTERLAND_FN static uint64_t place(int64_t walk, int64_t step) {
    return static_cast<uint64_t>(step << Draws::kPlaceBits | walk);
  }

  HINTERLAND_FN bool restarts(uint64_t place) const {
    return restart_ != 0.0 && uniform(draws_.bits(place, 0).half(1)) < restart_;
  }

  // Positions in several lists, or -1 where there is nothing to draw. All lanes call it together, each with lists or empty
  // ones. Where reads take long, one trial for each list is on its way at a time.
  template <int kCount>
  HINTERLAND_FN void choose(const ListPlace (&list)[kCount], const uint64_t (&place)[kCount], int64_t (&found)[kCount]) const {
    for (int k = 0; k < kCount; ++k)
      found[k] = weights_.any() || list[k].degree == 0 ? -1 : draws_.below(list[k].degree, place[k], 0);
    if (!weights_.any()) return;
    const auto tries = [&](int k) { return list[k].degree > 0 && found[k] < 0; };
    bool open = true;
    for (uint64_t trial = 1; trial <= kTrialsWithReplacement && open; ++trial) {
      for (int k = 0; graph::kReadsAhead<Graph> && k < kCount; ++k)
        if (tries(k)) from(list[k]).ask_for_trial(draws_, place[k], trial);
      open = false;
      for (int k = 0; k < kCount; ++k) {
        if (tries(k)) found[k] = from(list[k]).trial(draws_, place[k], trial);
        open = open || tries(k);
      }
    }
    for (int k = 0; k < kCount; ++k)
      for (uint32_t lanes = Warp::ballot(tries(k)); lanes != 0; lanes &= lanes - 1) {
        const int lane = stdlib::countr_zero(lanes);
        ListPlace theirs;
        theirs.vertex = Warp::broadcast(list[k].vertex, lane);
        theirs.begin = Warp::broadcast(list[k].begin, lane);
        theirs.degree = Warp::broadcast(list[k].degree, lane);
        const int64_t least = least_key(theirs, Warp::broadcast(place[k], lane));
        if (Warp::lane() == lane) found[k] = least;
      }
  }

 private:
  static constexpr uint64_t kRace = 1;

  HINTERLAND_FN Candidates<Graph> from(const ListPlace& list) const {
    return {graph_, weights_, rule_, graph_.num_vertices, list, 0};
  }

  // The position of the least key of a list, of equal ones the first; -1 if none has a weight. All lanes call it together.
  HINTERLAND_FN int64_t least_key(const ListPlace& list, uint64_t place) const {
    uint64_t own = kNoKey;
    int64_t at = -1;
    for (int64_t i = Warp::lane(); i < list.degree; i += Warp::kWidth) {
      const uint64_t key = from(list).key(draws_, place, kRace, i);
      if (key < own) own = key, at = i;
    }
    uint64_t least = Warp::broadcast(own, 0);
    int64_t found = Warp::broadcast(at, 0);
    const auto lesser = [&] { return Warp::ballot(own < least || (own == least && at < found)); };
    for (uint32_t lanes = lesser(); lanes != 0; lanes = lesser()) {
      const int lane = stdlib::countr_zero(lanes);
      least = Warp::broadcast(own, lane);
      found = Warp::broadcast(at, lane);
    }
    return found;
  }

  const Graph& graph_;
  SampleWeights<typename Graph::Family> weights_;
  ChoiceRule rule_;
  Draws draws_;
  double restart_;
};

// Walks of one lane.
template <class Graph>
inline constexpr int kWalksTogether = Warp::kWidth > 1            ? 1
                                      : graph::kReadsAhead<Graph> ? kStoredWalks
                                                                  : kWalks;

// Neighbours position[k] of lists, or -1 where that is -1. All lanes call it together.
template <class Graph, int kCount>
HINTERLAND_FN void follow(const Graph& graph, const ListPlace (&list)[kCount], const int64_t (&position)[kCount],
                          int64_t (&next)[kCount]) {
  if constexpr (graph::kReadsAhead<Graph>) {  // those that were asked for first are there before the last is
    for (int k = 0; k < kCount; ++k) ask_for_neighbor(graph, list[k], position[k]);
    for (int k = 0; k < kCount; ++k) next[k] = position[k] < 0 ? -1 : neighbor_alone(graph, list[k], position[k]);
  } else {
    read_neighbors(graph, list, position, next);
  }
}

// All walks. Called by all threads of a team.
template <class Graph, class Team>
HINTERLAND_FN void random_walks(Team& team, const WalkParams& task) {
  constexpr int kTogether = kWalksTogether<Graph>;
  const Graph graph(*task.graph);
  team.static_for(ceil_div<int64_t>(task.num_walks, kTogether), [&](const auto& ranges) {
    const WalkDraws<Graph> draws(graph, task);
    graph::StepCounts<> counts;
    ranges([&](int64_t first, int64_t last) {
      const int64_t run = first + Warp::lane(), begin = run * kTogether;
      const int64_t count = run < last ? min_of<int64_t>(task.num_walks - begin, kTogether) : 0;
      int64_t start[kTogether], at[kTogether];  // at: -1 once a walk has ended
      for (int k = 0; k < kTogether; ++k) {
        start[k] = at[k] = k < count ? task.starts[begin + k] : -1;
        if (k >= count) continue;
        if (!graph.has(at[k])) {
          atomic_min(task.control->bad_start, begin + k);
          at[k] = -1;
        }
        task.walks[(begin + k) * (task.length + 1)] = at[k];
      }
      for (int64_t step = 0; step < task.length; ++step) {
        ListPlace list[kTogether];
        uint64_t place[kTogether];
        int64_t position[kTogether], next[kTogether];
        bool returns[kTogether];
        for (int k = 0; k < kTogether; ++k) {
          place[k] = draws.place(task.first + begin + k, step);
          returns[k] = at[k] >= 0 && draws.restarts(place[k]);
          const graph::ListBounds bounds(graph, at[k], at[k] >= 0 && !returns[k], counts);
          list[k] = {at[k], bounds.begin, bounds.end - bounds.begin};
        }
        draws.choose(list, place, position);
        follow(graph, list, position, next);
        for (int k = 0; k < kTogether; ++k) {
          const int64_t from = at[k];
          at[k] = returns[k] ? start[k] : next[k];
          if (position[k] >= 0 && !graph.has(at[k])) {
            counts.bad = min_of(counts.bad, from);
            at[k] = -1;
          }
        }
        for (int k = 0; k < kTogether; ++k)
          if (k < count) task.walks[(begin + k) * (task.length + 1) + step + 1] = at[k];
      }
    });
    if (counts.bad != kNone) atomic_min(task.control->bad_list, counts.bad);
  });
}

}  // namespace hinterland::sampling
