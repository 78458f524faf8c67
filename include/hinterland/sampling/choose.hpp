// Which positions of its list a vertex draws.
//
// Where neighbours are alike, positions are drawn from the degree alone, and no list is read: Floyd's algorithm without
// replacement, independent draws with it. Where they differ, by weight or by time, a warp looks at the list:
//
//   without replacement  successive draws, each in proportion to weight among what is left. These are the neighbours with the
//                        least keys E / weight, E exponential, in order of their keys (Efraimidis and Spirakis, "Weighted
//                        random sampling with a reservoir", 2006): one pass over the list. Of a long list trials come first: a
//                        position drawn uniformly is accepted with probability weight / largest weight, unless it has been
//                        drawn. What the trials leave open is drawn by keys, among the others. When to stop trying depends on
//                        what has been drawn, not on what is still to be, so the distribution is the same.
//   with replacement     trials for each draw, and where all fail the least key of a pass over the list.
//   newest               the least of minus the time.
//
// A neighbour is there from its edge's time on, or from its vertex's if that is later; of the two, those count that are given.
// If that is after the limit, or further before it than the window, it counts as one of weight 0, and those are never drawn.
#pragma once

#include "hinterland/core/thresholds.hpp"
#include "hinterland/sampling/draw.hpp"
#include "hinterland/sampling/lists.hpp"

namespace hinterland::sampling {

// Draw `i` of `count` without replacement from [0, degree): Floyd's algorithm (Bentley and Floyd, "A sample of brilliance",
// CACM 1987), where tries[i] is uniform in [0, degree - count + i]. It takes the try, or, if that has been taken, the largest
// number that the try could have been. Asked for in any order: whether a number has been taken follows from the tries before.
HINTERLAND_FN int64_t floyd(const int64_t* tries, int64_t degree, int64_t count, int64_t i) {
  const int64_t largest = degree - count;
  for (int64_t step = i;;) {
    bool repeats = false;
    for (int64_t before = 0; before < step; ++before) repeats |= tries[before] == tries[step];
    if (repeats) return largest + i;
    // Not tried before; but an earlier step took it if it is that step's largest and that step's try repeats.
    const int64_t other = tries[step] - largest;
    if (other < 0 || other >= step) return tries[i];
    step = other;
  }
}

inline constexpr int kListBits = 40;  // of a position in a list; a race is numbered with what they leave of a draw's
inline constexpr int64_t kMostFanout = (int64_t{1} << (Draws::kDrawBits - kListBits)) - 1;

// How the vertices of one relation choose.
struct ChoiceRule {
  bool replace, newest;
  const int64_t* times;                  // of the vertices that lists name, or null
  const memory::ArrayWords* edge_times;  // of all edges, or null
  double most;                           // the largest weight
  uint64_t window;                       // how long before the limit a neighbour's time may be

  HINTERLAND_FN bool temporal() const { return times != nullptr || edge_times != nullptr; }
};

inline constexpr uint64_t kNoKey = ~uint64_t{0};

// The neighbours of one list, as a choice by weight and time sees them. Lanes read times alone, as they read weights: which
// ones follows from the draws of each. Sources are made anew at each read, since few registers are left to keep them in.
template <class Graph>
class Candidates {
 public:
  using Weights = SampleWeights<typename Graph::Family>;

  HINTERLAND_FN Candidates(const Graph& graph, const Weights& weights, const ChoiceRule& rule, int64_t num_sources,
                           const ListPlace& list, int64_t limit)
      : graph_(graph), weights_(weights), rule_(rule), num_sources_(num_sources), list_(list), limit_(limit) {}

  HINTERLAND_FN int64_t degree() const { return list_.degree; }

  HINTERLAND_WITHIN double weight(int64_t i) const {
    look_ahead(i);
    const double weight = weights_.read_alone(list_.begin + i);
    return !rule_.temporal() || in_time(time(i)) ? weight : 0.0;
  }

  // The moment from which on neighbour i is there.
  HINTERLAND_FN int64_t time(int64_t i) const {
    if (rule_.edge_times == nullptr) return vertex_time(i);
    const typename Graph::template Large<int64_t> times(*rule_.edge_times, graph_.num_edges);
    const int64_t time = times.read_alone(list_.begin + i);
    return rule_.times == nullptr ? time : max_of(time, vertex_time(i));
  }

  // The smaller the key, the earlier a neighbour is drawn in race `race`.
  HINTERLAND_FN uint64_t key(const Draws& races, uint64_t place, uint64_t race, int64_t i) const {
    const double weight = this->weight(i);
    if (weight <= 0.0) return kNoKey;
    if (rule_.newest)
      return min_of(static_cast<uint64_t>(stdlib::numeric_limits<int64_t>::max()) - static_cast<uint64_t>(time(i)), kNoKey - 1);
    const uint64_t draw = race << kListBits | static_cast<uint64_t>(i);
    if (!weights_.any()) return min_of(races.bits64(place, draw), kNoKey - 1);
    return stdlib::bit_cast<uint64_t>(races.exponential(place, draw) / weight);  // doubles that are not negative: same order
  }

  // Trial `draw`: a position, or -1 if it is not accepted.
  HINTERLAND_FN int64_t trial(const Draws& trials, uint64_t place, uint64_t draw) const {
    const Philox::Block block = trials.bits(place, draw);
    const int64_t i = tried(block);
    const double level = uniform(block.half(1)) * rule_.most;
    return level < weight(i) ? i : -1;
  }

  // Has what is compared of positions [from, to) read ahead (graph/ahead.hpp), or of the position that a trial looks at.
  HINTERLAND_FN int64_t ask([[maybe_unused]] int64_t from, [[maybe_unused]] int64_t to) const {
    int64_t begun = 0;
    if constexpr (graph::kReadsAhead<Graph>) {
      const graph::Piece part{list_.begin + from, list_.begin + min_of(to, list_.degree)};
      if (rule_.times != nullptr) begun = graph::ask_for_edges(graph_, list_.vertex, part);
      begun += weights_.ask(part);
    }
    return begun;
  }
  HINTERLAND_FN int64_t ask_for_trial(const Draws& trials, uint64_t place, uint64_t draw) const {
    const int64_t i = tried(trials.bits(place, draw));
    return ask(i, i + 1);
  }

 private:
  static constexpr int64_t kAhead = kTasksAhead * graph::kTaskEdges;

  HINTERLAND_FN int64_t tried(const Philox::Block& block) const {
    return static_cast<int64_t>(Philox::multiply_high(block.half(0), static_cast<uint64_t>(list_.degree)));
  }

  // Whoever goes through a long list has what follows read meanwhile.
  HINTERLAND_FN void look_ahead([[maybe_unused]] int64_t i) const {
    if constexpr (graph::kReadsAhead<Graph>)
      if (i % kAhead == 0 && i + kAhead < list_.degree) ask(i + kAhead, i + 2 * kAhead);
  }

  // What is later than the limit is older, in numbers that wrap round, than anything before it: one comparison tells both.
  HINTERLAND_FN uint64_t age(int64_t time) const { return static_cast<uint64_t>(limit_) - static_cast<uint64_t>(time); }
  HINTERLAND_FN bool in_time(int64_t time) const {
    return age(time) <= min_of(rule_.window, age(stdlib::numeric_limits<int64_t>::min()));
  }

  // The last moment is that of no vertex: a broken list, which whoever follows the edge reports, or none to choose.
  HINTERLAND_FN int64_t vertex_time(int64_t i) const {
    const int64_t neighbor = neighbor_alone(graph_, list_, i);
    const typename Graph::Family::template Whole<int64_t> times(rule_.times, num_sources_);
    return static_cast<uint64_t>(neighbor) < static_cast<uint64_t>(num_sources_) ? times.read_alone(neighbor) : limit_;
  }

  const Graph& graph_;
  const Weights& weights_;
  const ChoiceRule& rule_;
  int64_t num_sources_;
  ListPlace list_;
  int64_t limit_;
};

// The least keys seen so far, ascending, and where they are from. Of equal keys the earlier one is less. All lanes of a warp
// share it and call it together.
struct LeastKeys {
  uint64_t* keys;
  int64_t* places;
  int64_t capacity;
  int64_t size = 0;

  HINTERLAND_FN uint64_t bound() const { return size < capacity ? kNoKey : keys[capacity - 1]; }

  // Adds a key that is less than bound().
  HINTERLAND_FN void add(uint64_t key, int64_t place) {
    int64_t before = 0;
    for (int64_t at = Warp::lane(); at < size; at += Warp::kWidth) before += keys[at] <= key;
    before = Warp::sum(before);
    size = min_of(size + 1, capacity);
    for (int64_t end = size - 1; end > before; end -= Warp::kWidth) {  // what is larger moves up, from the end on
      const int64_t to = end - Warp::lane();
      const uint64_t moved_key = to > before ? keys[to - 1] : 0;
      const int64_t moved_place = to > before ? places[to - 1] : 0;
      Warp::sync();
      if (to > before) keys[to] = moved_key, places[to] = moved_place;
      Warp::sync();
    }
    if (Warp::lane() == 0) keys[before] = key, places[before] = place;
    Warp::sync();
  }
};

// The least keys of positions [0, degree), of those that have one: key_of(i), or kNoKey. All lanes call it together.
template <class KeyOf>
HINTERLAND_FN void race(int64_t degree, const KeyOf& key_of, LeastKeys& least) {
  constexpr int kInFlight = 4;  // docs/notes/thresholds.md
  for (int64_t first = 0; first < degree; first += kInFlight * Warp::kWidth) {
    uint64_t own[kInFlight];
    for (int k = 0; k < kInFlight; ++k) {
      const int64_t i = first + k * Warp::kWidth + Warp::lane();
      own[k] = i < degree ? key_of(i) : kNoKey;
    }
    for (int k = 0; k < kInFlight; ++k)
      for (uint32_t lanes = Warp::ballot(own[k] < least.bound()); lanes != 0; lanes &= lanes - 1) {
        const int lane = stdlib::countr_zero(lanes);
        const uint64_t key = Warp::broadcast(own[k], lane);
        if (key < least.bound()) least.add(key, first + k * Warp::kWidth + lane);
      }
  }
}

// Draws by weight and time.
struct ChoiceStreams {
  Draws trials, races;

  HINTERLAND_FN ChoiceStreams(uint64_t seed, uint64_t batch)
      : trials(seed, batch, Draws::kTrials), races(seed, batch, Draws::kRaces) {}
};

// What seeds mean depends on these: other numbers draw other neighbours (docs/notes/thresholds.md).
inline constexpr int64_t kTrialsPerDraw = 8;  // without replacement, of long lists
inline constexpr int64_t kLongPerTrial = 32;  // a list is long if it has so many neighbours for each trial: a line of edges
inline constexpr int64_t kTrialsWithReplacement = 32;

// Chooses up to `count` positions without replacement, in the order of the draws: returns how many. All lanes call it together.
template <class Graph>
HINTERLAND_FN int64_t choose_distinct(const Candidates<Graph>& from, bool newest, const ChoiceStreams& streams, uint64_t place,
                                      int64_t count, int64_t* picks, uint64_t* keys) {
  if (count == 0) return 0;
  int64_t found = 0;
  const auto has = [&](int64_t i) {
    bool taken = false;
    for (int64_t at = 0; at < found; ++at) taken |= picks[at] == i;
    return taken;
  };
  const int64_t trials = kTrialsPerDraw * count;
  if (!newest && from.degree() >= kLongPerTrial * trials) {
    for (int64_t first = 0; first < trials && found < count; first += Warp::kWidth) {
      const int64_t trial = first + Warp::lane();
      const int64_t own = trial < trials ? from.trial(streams.trials, place, static_cast<uint64_t>(trial)) : -1;
      for (uint32_t lanes = Warp::ballot(own >= 0); lanes != 0 && found < count; lanes &= lanes - 1) {
        const int64_t i = Warp::broadcast(own, stdlib::countr_zero(lanes));
        if (has(i)) continue;
        Warp::sync();
        if (Warp::lane() == 0) picks[found] = i;
        Warp::sync();
        ++found;
      }
    }
    if (found == count) return count;
  }
  LeastKeys least{keys + found, picks + found, count - found};
  race(from.degree(), [&](int64_t i) { return has(i) ? kNoKey : from.key(streams.races, place, 0, i); }, least);
  return found + least.size;
}

// Chooses `count` positions with replacement, or none if nothing can be drawn: returns how many. All lanes call it together.
template <class Graph>
HINTERLAND_FN int64_t choose_with_replacement(const Candidates<Graph>& from, const ChoiceStreams& streams, uint64_t place,
                                              int64_t count, int64_t* picks, uint64_t* keys) {
  if (from.degree() == 0) return 0;
  for (int64_t j = Warp::lane(); j < count; j += Warp::kWidth) {
    picks[j] = -1;
    for (int64_t trial = 0; trial < kTrialsWithReplacement && picks[j] < 0; ++trial)
      picks[j] = from.trial(streams.trials, place, static_cast<uint64_t>(j * kTrialsWithReplacement + trial));
  }
  Warp::sync();
  for (int64_t j = 0; j < count; ++j) {
    if (picks[j] >= 0) continue;
    LeastKeys least{keys + j, picks + j, 1};
    race(from.degree(), [&](int64_t i) { return from.key(streams.races, place, static_cast<uint64_t>(j), i); }, least);
    if (least.size == 0) return 0;  // there is nothing to draw, and no draw before found anything
  }
  return count;
}

}  // namespace hinterland::sampling
