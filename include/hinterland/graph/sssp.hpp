// Shortest paths from one vertex: delta-stepping with two buckets, near and far (Meyer and Sanders, "Delta-stepping: a
// parallelizable shortest path algorithm", J. Algorithms 2003; Davidson et al., "Work-efficient parallel GPU methods for
// single-source shortest paths", IPDPS 2014). Widest paths (sswp.hpp) differ in the Policy alone.
//
// A vertex has a key: how far it is, as an unsigned number, of which a smaller one is better. A step visits the frontier and
// lowers the keys of neighbours. A vertex whose key falls below the threshold goes to the next step's frontier; one that stays
// above waits in a bitmap, `far`. Once no vertex is left below the threshold, it moves: past the least key among the far ones,
// by delta, and those that are now below it make the next frontier. That step goes over all groups of vertices in order.
//
// What costs time is reading lists over the link, so no list should be read twice. A vertex is visited again if its key falls
// after its first visit. That cannot happen while delta is at most the least weight: what is below the threshold is final. A
// step without lists to read takes some 10 us on a GPU, so thousands of them are affordable and delta may be small: `delta` is
// where it begins. Where buckets stay so light that the steps themselves cost more than their lists (roads, long chains), it
// doubles after every kPatience of them, and halves again once they are heavy; a burst that begins in a light bucket, as in
// random graphs, is over before delta has grown.
//
// Keys end as the least solution of key[v] = min over edges of extend(key[u], weight), and extend() never decreases in its
// first argument, also where it rounds. So they are the same, to the last bit, for any delta, order and number of threads.
#pragma once

#include "hinterland/graph/advance.hpp"

namespace hinterland::graph {

template <class Weight>
using KeyFor = stdlib::conditional_t<sizeof(Weight) == 8, uint64_t, uint32_t>;

template <class Key>
inline constexpr Key kSignBit = Key{1} << (8 * sizeof(Key) - 1);

// The bits of infinity in the float type as wide as Key.
template <class Key>
inline constexpr Key kInfinityBits = sizeof(Key) == 8 ? static_cast<Key>(0x7ff0000000000000) : static_cast<Key>(0x7f800000);

// least + delta, but always more than least, and at most `most`.
template <class Key>
HINTERLAND_FN Key key_past(Key least, double delta, Key most) {
  if (least >= most || delta >= static_cast<double>(most - least)) return most;
  return least + max_of(Key{1}, static_cast<Key>(delta));
}

// Policy of shortest paths: a key is a distance. Weights are not negative. Non-negative floats order as their bits do.
template <class WeightType>
struct Shortest {
  using Weight = WeightType;
  using Key = KeyFor<Weight>;
  static constexpr bool kFloat = stdlib::is_floating_point_v<Weight>;
  static constexpr Key kUnset = kFloat ? kInfinityBits<Key> : static_cast<Key>(~Key{0});
  // For integers: the distance is more than kMost, the most that keys of four bytes, or results of eight, can say.
  static constexpr Key kOverflow = static_cast<Key>(~Key{0} - 1);
  static constexpr Key kMost = sizeof(Key) == 8 ? static_cast<Key>(~kSignBit<Key>) : static_cast<Key>(kOverflow - 1);

  HINTERLAND_FN static constexpr Key source() { return 0; }

  HINTERLAND_FN static Key extend(Key key, Weight weight) {
    if constexpr (kFloat) {
      return stdlib::bit_cast<Key>(stdlib::bit_cast<Weight>(key) + weight);
    } else {
      return key > kMost || static_cast<Key>(weight) > kMost - key ? kOverflow : key + static_cast<Key>(weight);
    }
  }

  // How far `key` lies behind `base`, which is no worse.
  HINTERLAND_FN static double between(Key base, Key key) {
    if constexpr (kFloat) {
      return static_cast<double>(stdlib::bit_cast<Weight>(key)) - static_cast<double>(stdlib::bit_cast<Weight>(base));
    } else {
      return static_cast<double>(key - base);
    }
  }

  // The threshold for a bucket that begins at `least`.
  HINTERLAND_FN static Key past(Key least, double delta) {
    if constexpr (kFloat) {
      const double sum = static_cast<double>(stdlib::bit_cast<Weight>(least)) + delta;
      return min_of(kUnset, max_of(static_cast<Key>(least + 1), stdlib::bit_cast<Key>(static_cast<Weight>(sum))));
    } else {
      return key_past(least, delta, kUnset);
    }
  }
};

// What a search is given.
struct PathParams {
  const GraphWords* graph;  // lists and weights, in memory that the processor addresses
  int64_t source;
  void* keys;     // of the instance's paths, [vertices], all unset
  char* scratch;  // that of a PathState
  double delta;   // BucketWidth
  int64_t light;
};

// Shared by all threads. `least[b % 2]` is the least key known to be far when bucket b begins; the other collects the same for
// the bucket after it.
struct PathControl {
  uint64_t least[2];
  int64_t buckets;  // after the first
  int64_t padding[13];
};
static_assert(sizeof(PathControl) == kLineBytes);

template <class Policy>
struct PathState {
  using Key = typename Policy::Key;

  Scratch scratch;
  Key* keys;  // Policy::kUnset at the start
  PathControl* path;
  uint32_t* far;  // one bit a vertex; it may stay set when its vertex comes below the threshold
  Frontier frontier;

  HINTERLAND_FN PathState(const PathParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        keys(static_cast<Key*>(p.keys)),
        path(scratch.take<PathControl>(1)),
        far(scratch.take<uint32_t>(ceil_div<int64_t>(num_vertices, kGroup))),
        frontier(scratch, num_vertices, num_edges) {}

  HINTERLAND_FN void begin_at(int64_t source) const {
    path->least[0] = path->least[1] = Policy::kUnset;
    frontier.begin();
    keys[source] = Policy::source();
    frontier.start(source);
  }

  // The least far key when `bucket` begins, and what a thread found for the bucket after it.
  HINTERLAND_FN Key least(int64_t bucket) const { return static_cast<Key>(atomic_load(path->least[bucket % 2])); }
  HINTERLAND_FN void report_least(int64_t bucket, Key found) const {
    uint64_t& place = path->least[(bucket + 1) % 2];
    if (found < atomic_load(place)) atomic_min(place, static_cast<uint64_t>(found));
  }

  HINTERLAND_FN void defer(int64_t v) const {
    uint32_t& word = far[group_of(v)];
    if (!(atomic_load(word) & bit_of(v))) atomic_or(word, bit_of(v));
  }
};

// Lowers the keys of neighbours. A key that falls while its own vertex is being visited is read as it is: whoever lowered it
// has marked the vertex again.
template <class Policy, class Touched>
struct Relax {
  using Key = typename Policy::Key;

  const PathState<Policy>& state;
  Touched& touched;
  int64_t bucket;
  Key threshold;
  Key least = Policy::kUnset;  // among the keys that this thread made far

  HINTERLAND_FN void finish() const { state.report_least(bucket, least); }

  template <class Batch>
  HINTERLAND_FN void operator()(const Batch& batch) {
    Key offer[Batch::kSize];
    Key before[Batch::kSize];  // the neighbour's key; 0, which no offer is less than, where there is none to lower
    for (int k = 0; k < Batch::kSize; ++k) {
      const bool valid = batch.from[k] >= 0;
      offer[k] = valid ? atomic_load(state.keys[batch.from[k]]) : 0;
      before[k] = valid ? atomic_load(state.keys[batch.to[k]]) : 0;
    }
    for (int k = 0; k < Batch::kSize; ++k) {
      if (batch.from[k] < 0) continue;
      offer[k] = Policy::extend(offer[k], batch.weight[k]);
      before[k] = offer[k] < before[k] ? atomic_min(state.keys[batch.to[k]], offer[k]) : 0;
    }
    for (int k = 0; k < Batch::kSize; ++k) {
      if (offer[k] >= before[k]) continue;
      if (offer[k] < threshold) {
        state.frontier.mark(batch.to[k], touched);
      } else {
        state.defer(batch.to[k]);
        least = min_of(least, offer[k]);
      }
    }
  }
};

// The threshold moves from `below` to `threshold`: far vertices of groups [first, last), at most one a lane, that are now below
// it move to `next`; those that an earlier bucket has settled are no longer far. `least` takes the keys of the others.
template <class Policy>
HINTERLAND_FN void settle(const PathState<Policy>& state, int64_t first, int64_t last, typename Policy::Key below,
                          typename Policy::Key threshold, typename Policy::Key& least) {
  using Key = typename Policy::Key;
  constexpr int kInFlight = Warp::kWidth == 1 ? 1 : 4;  // groups whose keys a warp requests together: docs/notes/thresholds.md
  const int64_t own_group = first + Warp::lane();
  const uint32_t own_far = own_group < last ? state.far[own_group] : 0;
  const uint32_t groups = Warp::ballot(own_far != 0);
  if (groups == 0) return;
  uint32_t own_ready = 0, own_kept = 0;
  for (int turn = 0; turn < last - first; turn += kInFlight) {
    if ((groups >> turn & ((1u << kInFlight) - 1)) == 0) continue;
    for (int sub = 0; sub < kGroup; sub += Warp::kWidth) {
      Key key[kInFlight];  // 0, which is settled, where there is none
      for (int k = 0; k < kInFlight; ++k) {
        const bool is_far = Warp::broadcast(own_far, (turn + k) % Warp::kWidth) >> (sub + Warp::lane()) & 1u;
        key[k] = is_far && turn + k < last - first ? state.keys[(first + turn + k) * kGroup + sub + Warp::lane()] : 0;
      }
      for (int k = 0; k < kInFlight; ++k) {
        const uint32_t ready = Warp::ballot(key[k] >= below && key[k] < threshold) << sub;
        const uint32_t kept = Warp::ballot(key[k] >= threshold) << sub;
        if (key[k] >= threshold) least = min_of(least, key[k]);
        if (Warp::lane() == turn + k) own_ready |= ready, own_kept |= kept;
      }
    }
  }
  if (own_far == 0) return;
  state.far[own_group] = own_kept;
  state.frontier.next[own_group] = own_ready;
}

// What is done before groups are collected: where a bucket begins, its vertices come from the far ones.
template <class Policy>
struct EnterBucket {
  using Key = typename Policy::Key;

  const PathState<Policy>& state;
  int64_t bucket;
  bool begins;
  Key below, threshold;
  Key least = Policy::kUnset;  // of those that stay far

  HINTERLAND_FN void before(int64_t first, int64_t last) {
    if (begins) settle(state, first, last, below, threshold, least);
  }
  HINTERLAND_FN void operator()(int64_t) const {}
  HINTERLAND_FN void finish() const { state.report_least(bucket, least); }
};

// The width of buckets. Every thread keeps its own, and all the same.
class BucketWidth {
 public:
  // A bucket with fewer edges than `light` takes longer for its steps than for its lists; -1: the width stays as it is.
  HINTERLAND_FN BucketWidth(double delta, int64_t light) : delta_(delta), first_(delta), light_(light) {}

  HINTERLAND_FN double delta() const { return delta_; }
  HINTERLAND_FN double first() const { return first_; }

  // A bucket has ended; so far, edges have been visited `explored` times.
  HINTERLAND_FN void adapt(int64_t explored) {
    const int64_t edges = explored - explored_;
    explored_ = explored;
    if (edges >= light_) quiet_ = 0;
    if (edges > kHeavy * light_ && light_ >= 0) delta_ = max_of(first_, delta_ / 2);
    if (edges < light_ && ++quiet_ % kPatience == 0) delta_ *= 2;
  }

 private:
  // A bucket is heavy with so many times `light`, and buckets grow after so many light ones: docs/notes/thresholds.md.
  static constexpr int64_t kHeavy = 16, kPatience = 4;

  double delta_, first_;
  int64_t light_, explored_ = 0, quiet_ = 0;
};

// All paths from `source`; `width` says how wide a bucket is.
template <class Team, class Graph, class Policy>
HINTERLAND_FN void best_paths(Team& team, const Graph& graph, const PathState<Policy>& state, int64_t source,
                              BucketWidth width) {
  using Key = typename Policy::Key;
  const Frontier& frontier = state.frontier;
  team.single([&] { state.begin_at(source); });
  team.wait();
  int64_t bucket = 0, explored = 0;
  Key below = 0, threshold = Policy::past(Policy::source(), width.delta());
  for (int64_t step = 0;; ++step) {
    const bool advances = frontier.num_touched(step) == 0;  // nothing is near: the next bucket begins
    if (advances) {
      const Key least = state.least(++bucket);
      if (least == Policy::kUnset) break;
      width.adapt(explored);
      below = threshold;
      threshold = Policy::past(least, width.delta());
    }
    const GroupList groups = advances ? frontier.all_groups() : frontier.groups(step);
    team.single([&] { frontier.begin_step(step, team.now_ns()); });
    collect_groups(team, graph, frontier, step, groups,
                   [&] { return EnterBucket<Policy>{state, bucket, advances, below, threshold}; });
    const int64_t num_tasks = frontier.num_tasks(step);
    explored = frontier.explored(step);
    team.single([&] {
      frontier.begin_visit(step, num_tasks, team.now_ns());
      state.path->least[bucket % 2] = Policy::kUnset;  // read by all, and free for the bucket after the next
      state.path->buckets = bucket;
    });
    visit_tasks(team, graph, frontier, step, num_tasks,
                [&]<class Touched>(Touched& touched) { return Relax<Policy, Touched>{state, touched, bucket, threshold}; });
  }
  team.single([&] { frontier.end(team.now_ns()); });
}

}  // namespace hinterland::graph
