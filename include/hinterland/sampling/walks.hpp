// Random walks: from each start a walk that goes on to a neighbour of where it is, drawn uniformly or in proportion to weight,
// or, with a probability, back to its start (Tong, Faloutsos, Pan, "Fast random walk with restart", ICDM 2006).
//
// A lane makes a walk. Each step waits for two requests, one after the other: where the list lies, and the neighbour; walks do not
// wait for each other. A GPU has enough of them in flight as it has lanes. A CPU's thread makes a few walks side by side, each
// phase of a step for all of them, so that it waits for several reads at once; more of them where a read takes long.
//
// A weighted step tries positions as choose.hpp does with replacement, and where all trials fail the lanes of the warp together
// go through the list and take the least key, which is the same distribution.
#pragma once

#include "hinterland/core/grid.hpp"
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

// How one step of any walk is drawn. Its place is the walk and the step; draw 0 decides on the restart and draws a neighbour where
// all are alike, then come the trials, and from kRace on the keys.
template <class Graph>
class WalkDraws {
 public:
  HINTERLAND_FN WalkDraws(const Graph& graph, const WalkParams& task)
      : graph_(graph),
        weights_(*task.graph, task.weights),
        rule_{true, false, nullptr, nullptr, task.most_weight},
        draws_(task.seed, task.batch, Draws::kWalks),
        restart_(task.restart) {}

  HINTERLAND_FN static uint64_t place(int64_t walk, int64_t step) {
    return static_cast<uint64_t>(step << Draws::kPlaceBits | walk);
  }

  HINTERLAND_FN bool restarts(uint64_t place) const {
    return restart_ != 0.0 && uniform(draws_.bits(place, 0).half(1)) < restart_;
  }

  // Has what choose() looks at first read ahead.
  HINTERLAND_FN void ask_for_choice([[maybe_unused]] const ListPlace& list, [[maybe_unused]] uint64_t place) const {
    if constexpr (graph::kReadsAhead<Graph>)
      if (weights_.any() && list.degree > 0) from(list).ask_for_trial(draws_, place, 1);
  }

  // A position in the list, or -1 if there is nothing to draw. All lanes call it together, each with a list or an empty one.
  HINTERLAND_FN int64_t choose(const ListPlace& list, uint64_t place) const {
    if (!weights_.any()) return list.degree == 0 ? -1 : draws_.below(list.degree, place, 0);
    int64_t found = -1;
    if (list.degree > 0)
      for (int64_t trial = 0; trial < kTrialsWithReplacement && found < 0; ++trial)
        found = from(list).trial(draws_, place, static_cast<uint64_t>(1 + trial));
    for (uint32_t lanes = Warp::ballot(list.degree > 0 && found < 0); lanes != 0; lanes &= lanes - 1) {
      const int lane = stdlib::countr_zero(lanes);
      ListPlace theirs;
      theirs.vertex = Warp::broadcast(list.vertex, lane);
      theirs.begin = Warp::broadcast(list.begin, lane);
      theirs.degree = Warp::broadcast(list.degree, lane);
      const int64_t least = least_key(theirs, Warp::broadcast(place, lane));
      if (Warp::lane() == lane) found = least;
    }
    return found;
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

// Walks of one lane: chosen, not measured.
template <class Graph>
inline constexpr int kWalksTogether = Warp::kWidth > 1            ? 1
                                      : graph::kReadsAhead<Graph> ? 32
                                                                  : 8;

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
        int64_t position[kTogether];
        bool returns[kTogether];
        for (int k = 0; k < kTogether; ++k) {
          returns[k] = at[k] >= 0 && draws.restarts(draws.place(task.first + begin + k, step));
          const graph::ListBounds bounds(graph, at[k], at[k] >= 0 && !returns[k], counts);
          list[k] = {at[k], bounds.begin, bounds.end - bounds.begin};
          draws.ask_for_choice(list[k], draws.place(task.first + begin + k, step));
        }
        for (int k = 0; k < kTogether; ++k) {
          position[k] = draws.choose(list[k], draws.place(task.first + begin + k, step));
          ask_for_neighbor(graph, list[k], position[k]);
        }
        int64_t next[kTogether];
        read_neighbors(graph, list, position, next);
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
