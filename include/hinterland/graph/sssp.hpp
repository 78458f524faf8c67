// Shortest paths from one vertex: delta-stepping with two buckets, near and far (Meyer and Sanders, "Delta-stepping: a
// parallelizable shortest path algorithm", J. Algorithms 2003; Davidson et al., "Work-efficient parallel GPU methods for
// single-source shortest paths", IPDPS 2014). Widest paths (sswp.hpp) differ in the Policy alone.
//
// A vertex has a key: how far it is, as an unsigned number, of which a smaller one is better. A step visits the frontier and
// lowers the keys of neighbours. A vertex whose key falls below the threshold goes to the next step's frontier; one that stays
// above waits in a bitmap, `far`. Once no vertex is left below the threshold, it moves: past the least key among the far ones,
// by delta, and those that are now below it make the next frontier. That step goes over all groups of vertices in order, unless
// few have far vertices: they are listed. Where step after step has few groups, a second kernel takes over, whose steps may be
// one loop, in which a warp goes on with what it finds below the threshold: it needs registers that the first has not to spare.
// On a CPU threads have bins (native/graph/path_bins.hpp).
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

#include "hinterland/core/thresholds.hpp"
#include "hinterland/graph/advance.hpp"
#include "hinterland/graph/path_keys.hpp"

namespace hinterland::graph {

// What a search is given.
struct PathParams {
  const GraphWords* graph;  // lists and weights, in memory that the processor addresses
  int64_t source;
  void* keys;     // of the instance's paths, [vertices], all unset
  char* scratch;  // that of a PathState
  double delta;   // BucketWidth
  int64_t light;
};

// What is known of the vertices that are far when a bucket begins. Places alternate among three buckets: the one that begins
// reads its own, threads write to that of the bucket after it, and that of the one after is cleared.
struct FarSide {
  uint64_t least;  // key
  int64_t groups;  // that have such vertices; those that fit are listed
};

// What a step of one loop leaves to the next. Places alternate among four steps, and that of the one after the next is cleared.
struct StepTurn {
  int64_t groups;  // to visit in the step, if the one before was of one loop; those that fit are listed
  int64_t heavy;   // of their vertices, how many have long lists
  int64_t edges;   // that the step, of one loop, visited
};

// The width of buckets. Every thread keeps its own, and all the same.
class BucketWidth {
 public:
  // A bucket with fewer edges than `light` takes longer for its steps than for its lists; -1: the width stays as it is.
  HINTERLAND_FN BucketWidth(double delta, int64_t light) : delta_(delta), first_(delta), light_(light) {}

  HINTERLAND_FN double delta() const { return delta_; }
  HINTERLAND_FN double first() const { return first_; }

  // Whether the last bucket had many edges.
  HINTERLAND_FN bool was_heavy() const { return light_ >= 0 && edges_ > kHeavy * light_; }

  // A bucket has ended; so far, edges have been visited `explored` times.
  HINTERLAND_FN void adapt(int64_t explored) {
    edges_ = explored - explored_;
    explored_ = explored;
    if (edges_ >= light_) quiet_ = 0;
    if (was_heavy()) delta_ = max_of(first_, delta_ / 2);
    if (edges_ < light_ && ++quiet_ % kPatience == 0) delta_ *= 2;
  }

 private:
  // A bucket is heavy with so many times `light`, and buckets grow after so many light ones: docs/notes/thresholds.md.
  static constexpr int64_t kHeavy = 16, kPatience = 4;

  double delta_, first_;
  int64_t light_, explored_ = 0, edges_ = 0, quiet_ = 0;
};

// Where a search stands between two steps, the same for all threads. Vertices with keys from `below` to `threshold` are near.
struct PathStand {
  int64_t step, bucket, explored;
  int64_t thin_steps;  // in a row, to the last one
  uint64_t below, threshold;
  BucketWidth width;
};

// Shared by all threads.
struct PathControl {
  FarSide far[3];
  int64_t buckets;  // after the first
  int64_t padding0[9];
  StepTurn turns[4];
  int64_t padding1[4];
};
static_assert(sizeof(PathControl) == 2 * kLineBytes);

// What the first kernel begins with, and leaves to the second.
struct PathHandover {
  PathStand stand;
  int64_t goes_on;  // whether the search is not through
  int64_t padding[3];
  TeamControl team;  // of the second kernel
};
static_assert(sizeof(PathHandover) == kLineBytes + sizeof(TeamControl));

template <class Policy>
struct PathState {
  using Key = typename Policy::Key;

  Scratch scratch;
  Key* keys;  // Policy::kUnset at the start
  PathControl* path;
  PathHandover* handover;
  uint32_t* far;  // one bit a vertex; it may stay set when its vertex comes below the threshold
  Frontier frontier;
  int64_t capacity;     // of each list of groups
  int64_t* far_lists;   // two: groups with far vertices, of a bucket and of the next
  int64_t* near_lists;  // two: groups with vertices for a step and for the next

  HINTERLAND_FN PathState(const PathParams& p, int64_t num_vertices, int64_t num_edges)
      : scratch{p.scratch},
        keys(static_cast<Key*>(p.keys)),
        path(scratch.take<PathControl>(1)),
        handover(scratch.take<PathHandover>(1)),
        far(scratch.take<uint32_t>(ceil_div<int64_t>(num_vertices, kGroup))),
        frontier(scratch, num_vertices, num_edges),
        capacity(frontier.num_groups / kThinShare + kThinLeast),
        far_lists(scratch.take<int64_t>(2 * capacity)),
        near_lists(scratch.take<int64_t>(2 * capacity)) {}

  // One thread calls it before the search.
  HINTERLAND_FN void begin_at(int64_t source) const {
    for (FarSide& side : path->far) side.least = Policy::kUnset;
    frontier.begin();
    keys[source] = Policy::source();
    frontier.start(source);
    handover->goes_on = 1;
  }
  HINTERLAND_FN static PathStand at_source(BucketWidth width) {
    return {0, 0, 0, 0, 0, Policy::past(Policy::source(), width.delta()), width};
  }

  HINTERLAND_FN bool goes_on() const { return atomic_load(handover->goes_on) != 0; }

  // One thread calls it as a step begins; `advances` where a bucket does.
  HINTERLAND_FN void begin_step(int64_t step, int64_t bucket, bool advances) const {
    path->turns[(step + 2) % 4] = {};
    path->buckets = bucket;
    if (advances) path->far[(bucket + 2) % 3] = {Policy::kUnset, 0};
  }

  // The least far key when `bucket` begins, and what a thread found for the bucket after it.
  HINTERLAND_FN Key least(int64_t bucket) const { return static_cast<Key>(atomic_load(path->far[bucket % 3].least)); }
  HINTERLAND_FN void report_least(int64_t bucket, Key found) const {
    uint64_t& place = path->far[(bucket + 1) % 3].least;
    if (found < atomic_load(place)) atomic_min(place, static_cast<uint64_t>(found));
  }

  // Groups with far vertices when `bucket` begins, and where those for the bucket after it go.
  HINTERLAND_FN GroupList far_groups(int64_t bucket) const {
    return listed(far_lists + bucket % 2 * capacity, path->far[bucket % 3].groups);
  }
  HINTERLAND_FN AppendQueue<int64_t> far_queue(int64_t bucket) const {
    return {far_lists + (bucket + 1) % 2 * capacity, &path->far[(bucket + 1) % 3].groups, capacity};
  }

  // The same for what is near after a step of one loop.
  HINTERLAND_FN GroupList near_groups(int64_t step) const {
    return listed(near_lists + step % 2 * capacity, path->turns[step % 4].groups);
  }
  HINTERLAND_FN AppendQueue<int64_t> near_queue(int64_t step) const {
    return {near_lists + (step + 1) % 2 * capacity, &path->turns[(step + 1) % 4].groups, capacity};
  }

  // Vertices of a group become far.
  HINTERLAND_FN void defer(int64_t group, uint32_t vertices, int64_t bucket) const {
    uint32_t& word = far[group];
    if ((atomic_load(word) & vertices) == vertices || atomic_or(word, vertices) != 0) return;
    const AppendQueue<int64_t> queue = far_queue(bucket);
    if (atomic_load(*queue.count) <= capacity) queue.append(group);  // more are not listed, and need not be counted
  }

 private:
  HINTERLAND_FN GroupList listed(const int64_t* list, int64_t& count) const {
    const int64_t found = atomic_load(count);
    return found <= capacity ? GroupList{list, found} : frontier.all_groups();
  }
};

// Lowers the keys of neighbours. A key that falls while its own vertex is being visited is read as it is: whoever lowered it
// has found the vertex again. near(is, vertex, key) is told what comes below the threshold, by all lanes together.
template <class Policy, class Near>
struct Relax {
  using Key = typename Policy::Key;

  const PathState<Policy>& state;
  Near near;
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
      const bool lowered = offer[k] < before[k];
      near(lowered && offer[k] < threshold, batch.to[k], offer[k]);
      if (!lowered || offer[k] < threshold) continue;
      state.defer(group_of(batch.to[k]), bit_of(batch.to[k]), bucket);
      least = min_of(least, offer[k]);
    }
  }
};

// What is near waits for the next step.
template <class Touched>
struct MarkNear {
  const Frontier& frontier;
  Touched& touched;

  template <class Key>
  HINTERLAND_FN void operator()(bool is, int64_t vertex, Key) const {
    if (is) frontier.mark(vertex, touched);
  }
};

// The threshold moves from `below` to `threshold`: far vertices of groups [first, last), at most one a lane, that are now below
// it move to `next`; those that an earlier bucket has settled are no longer far. `least` takes the keys of the others.
template <class Policy>
HINTERLAND_FN void settle(const PathState<Policy>& state, int64_t bucket, int64_t first, int64_t last,
                          typename Policy::Key below, typename Policy::Key threshold, typename Policy::Key& least) {
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
  state.far_queue(bucket).append(own_kept != 0, [&](int64_t) { return own_group; });
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
    if (begins) settle(state, bucket, first, last, below, threshold, least);
  }
  HINTERLAND_FN void operator()(int64_t) const {}
  HINTERLAND_FN void finish() const { state.report_least(bucket, least); }
};

// A vertex that got this key. Once it has a better one it was found again, and this says nothing any more.
template <class Vertex, class Key>
struct Reached {
  Vertex vertex;
  Key key;
};

// What a warp has found and goes on with by itself, the oldest first.
template <class Policy, class Vertex>
struct WarpQueue {
  using Key = typename Policy::Key;
  using Item = Reached<Vertex, Key>;
  static constexpr uint32_t kCapacity = kWarpQueueItems;

  Item* items = Warp::shared<Item, kCapacity>();
  uint32_t head = 0, size = 0;

  // Adds the items of lanes that have one; false for those for whose there is no room. All lanes call it together.
  HINTERLAND_FN bool push(bool has, Vertex vertex, Key key) {
    const uint32_t lanes = Warp::ballot(has);
    const uint32_t rank = stdlib::popcount(lanes & ((1u << Warp::lane()) - 1)), room = kCapacity - size;
    const bool fits = !has || rank < room;
    if (has && fits) items[(head + size + rank) % kCapacity] = {vertex, key};
    size += min_of(static_cast<uint32_t>(stdlib::popcount(lanes)), room);
    return fits;
  }

  // Takes up to one item for each lane; `has` says whether this one got one.
  HINTERLAND_FN Item pop(bool& has) {
    const uint32_t taken = min_of(size, static_cast<uint32_t>(Warp::kWidth));
    has = static_cast<uint32_t>(Warp::lane()) < taken;
    Warp::sync();
    const Item item = has ? items[(head + Warp::lane()) % kCapacity] : Item{};
    Warp::sync();
    head += taken;
    size -= taken;
    return item;
  }
};

// What is near goes to the warp's queue; where that is full, it waits for the next step.
template <class Policy, class Vertex>
struct QueueNear {
  using Key = typename Policy::Key;

  const PathState<Policy>& state;
  WarpQueue<Policy, Vertex>& queue;
  int64_t step;

  HINTERLAND_FN void operator()(bool is, int64_t vertex, Key key) const {
    if (!queue.push(is, static_cast<Vertex>(vertex), key)) leave(vertex);
  }
  HINTERLAND_FN void leave(int64_t vertex) const {
    const AppendQueue<int64_t> queue = state.near_queue(step);
    state.frontier.mark(vertex, queue);
  }
};

// A step of one loop, for few vertices: those that are marked in some groups, or, where a bucket begins, those that were far
// and are now below the threshold. A warp goes on with what it finds below the threshold, so most often nothing is left to the
// next step, and all wait for each other once a bucket. The order is then what it happens to be; keys end the same.
template <class Key>
struct StepAtOnce {
  int64_t step, bucket;
  bool begins;
  Key below, threshold;
};

// What a warp does of it: each lane brings a group, or -1. A function by itself, with copies of what it is given, so that the
// driver's other loops keep theirs in registers.
template <class Graph, class Policy>
HINTERLAND_APART void visit_at_once(Graph graph, PathState<Policy> state, StepAtOnce<typename Policy::Key> at, int64_t group) {
  using Key = typename Policy::Key;
  using Vertex = typename Graph::Edge;
  WarpQueue<Policy, Vertex> queue;
  const QueueNear<Policy, Vertex> near{state, queue, at.step};
  Relax<Policy, QueueNear<Policy, Vertex>> relax{state, near, at.bucket, at.threshold};
  CountsOf<Graph> counts;
  uint32_t left = group < 0 ? 0 : atomic_and(at.begins ? state.far[group] : state.frontier.next[group], 0u), kept = 0;
  while (true) {
    if (queue.size < static_cast<uint32_t>(Warp::kWidth) && Warp::any(left != 0)) {  // a vertex of each lane's group
      const bool there = left != 0;
      const int64_t vertex = there ? group * kGroup + stdlib::countr_zero(left) : 0;
      const Key key = there ? atomic_load(state.keys[vertex]) : 0;
      if (at.begins && there && key >= at.threshold) {
        kept |= bit_of(vertex);
        relax.least = min_of(relax.least, key);
      }
      near(there && (!at.begins || (key >= at.below && key < at.threshold)), vertex, key);
      left &= left - 1;
      continue;
    }
    if (queue.size == 0) break;
    bool has;
    const auto item = queue.pop(has);
    auto lists = lists_of(graph, item.vertex, has, counts);
    has = has && atomic_load(state.keys[item.vertex]) == item.key;
    const bool is_long = has && lists.length() > kTaskEdges;  // is shared by many warps
    if (is_long) {
      near.leave(item.vertex);
      atomic_add(state.path->turns[(at.step + 1) % 4].heavy, int64_t{1});
    }
    const bool visited = has && !is_long;
    if constexpr (requires { lists.pack(visited); })
      lists.pack(visited);
    else
      lists = lists_of(graph, item.vertex, visited, counts);
    counts.vertices += visited;
    counts.edges += lists.length();
    visit_chunks(graph, lists, item.vertex, 0, lists.chunks, relax, counts);
  }
  if (kept != 0) state.defer(group, kept, at.bucket);
  relax.finish();
  const int64_t edges = Warp::sum(counts.edges);
  if (edges != 0 && Warp::lane() == 0) atomic_add(state.path->turns[at.step % 4].edges, edges);
  counts.add_to(state.frontier, at.step);
}

// The search goes on from `begin` until nothing is left or, unless kMayBeAtOnce, `patience` steps in a row had few
// groups: at most `thin`.
template <bool kMayBeAtOnce, class Team, class Graph, class Policy>
HINTERLAND_FN void best_paths(Team& team, const Graph& graph, const PathState<Policy>& state, const PathStand& begin,
                              int64_t thin, int64_t patience) {
  using Key = typename Policy::Key;
  const Frontier& frontier = state.frontier;
  int64_t bucket = begin.bucket, explored = begin.explored, thin_steps = begin.thin_steps;
  Key below = static_cast<Key>(begin.below), threshold = static_cast<Key>(begin.threshold);
  BucketWidth width = begin.width;
  bool at_once = false;  // the step before was of one loop
  for (int64_t step = begin.step;; ++step) {
    if constexpr (!kMayBeAtOnce) {
      if (thin_steps == patience) {
        team.single([&] { state.handover->stand = {step, bucket, explored, thin_steps, below, threshold, width}; });
        return;
      }
    }
    if (at_once) explored += atomic_load(state.path->turns[(step - 1) % 4].edges);
    GroupList groups = at_once ? state.near_groups(step) : frontier.groups(step);
    const bool heavy = at_once && atomic_load(state.path->turns[step % 4].heavy) != 0;
    const bool advances = groups.count == 0;  // nothing is near: the next bucket begins
    if (advances) {
      const Key least = state.least(++bucket);
      if (least == Policy::kUnset) break;
      width.adapt(explored);
      below = threshold;
      threshold = Policy::past(least, width.delta());
      groups = state.far_groups(bucket);
    }
    const bool is_thin = !groups.all() && groups.count <= thin && !heavy && !width.was_heavy();
    thin_steps = is_thin ? thin_steps + 1 : 0;
    at_once = kMayBeAtOnce && is_thin;
    team.single([&] {
      frontier.begin_step(step, team.now_ns());
      state.begin_step(step, bucket, advances);
    });
    if (at_once) {
      team.single([&] { frontier.begin_visit(step, 0, team.now_ns()); });
      const StepAtOnce<Key> at{step, bucket, advances, below, threshold};
      team.static_for(groups.count, [&](const auto& ranges) {
        ranges([&](int64_t first, int64_t last) {
          visit_at_once(graph, state, at, first + Warp::lane() < last ? groups[first + Warp::lane()] : -1);
        });
      });
      continue;
    }
    collect_groups(team, graph, frontier, step, advances ? frontier.all_groups() : groups,
                   [&] { return EnterBucket<Policy>{state, bucket, advances, below, threshold}; });
    const int64_t num_tasks = frontier.num_tasks(step);
    explored += frontier.edges(step);
    team.single([&] { frontier.begin_visit(step, num_tasks, team.now_ns()); });
    visit_tasks(team, graph, frontier, step, num_tasks, [&]<class Touched>(Touched& touched) {
      return Relax<Policy, MarkNear<Touched>>{state, {frontier, touched}, bucket, threshold};
    });
  }
  team.single([&] {
    atomic_store(state.handover->goes_on, int64_t{0});
    frontier.end(team.now_ns());
  });
}

#if defined(__CUDACC__)

// A search as two launches, of the first kernel and of the second.
template <bool kSecond, class Graph, class Policy>
__device__ void best_paths_of(const PathParams& p) {
  const Graph graph(*p.graph);
  const PathState<Policy> state(p, graph.num_vertices, graph.num_edges);
  GridTeam team(kSecond ? &state.handover->team : &state.frontier.control->team);
  if constexpr (kSecond) {
    if (state.goes_on()) best_paths<true>(team, graph, state, state.handover->stand, state.capacity, kThinSteps);
  } else {
    team.single([&] { state.begin_at(p.source); });
    team.wait();
    best_paths<false>(team, graph, state, state.at_source({p.delta, p.light}), state.capacity, kThinSteps);
  }
}

#endif

}  // namespace hinterland::graph
