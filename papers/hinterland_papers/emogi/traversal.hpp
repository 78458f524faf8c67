// EMOGI's traversals as published (Min 2022, chapter 2) and BaM's ways of giving them to warps (Mailthody 2022, section 6.3):
// the ablation that the fast algorithms are compared with.
//
// Three policies make a kernel. An access says which elements of a list each lane reads in which step; an assignment, which
// lists a worker serves; an application, what happens to an edge. A worker is a warp, or a thread where the access is naive.
// Accesses and assignments are pure arithmetic, so that traffic/requests.hpp counts what the kernels do.
//
// Every level is one launch over all workers: there is no frontier. The edge array is taken to begin on a cache line.
#pragma once

#include "hinterland/core/atomic.hpp"
#include "hinterland/core/platform.hpp"
#include "hinterland/core/warp.hpp"
#include "hinterland/graph/lists.hpp"
#include "hinterland/graph/path_keys.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::emogi {

using graph::Piece, graph::Shortest;

inline constexpr int kEmogiWarps = 8;  // in a block of the GPU: a guess
// Of a list, which a warp requests before it looks at the first: docs/notes/thresholds.md.
inline constexpr int kEmogiInFlight = 8;
inline constexpr int kIdle = -1;  // for the neighbour of a lane that has none

// What one lane reads of a list [begin, end): in step k the element at(k), where holds(k).
struct Strip {
  int64_t begin, end, first, stride;

  HINTERLAND_FN int64_t at(int64_t k) const { return first + k * stride; }
  HINTERLAND_FN bool holds(int64_t k) const { return at(k) >= begin && at(k) < end; }
  HINTERLAND_FN int64_t steps() const { return first < end ? ceil_div(end - first, stride) : 0; }
};

// Listing 2.1 of Min 2022: a thread walks a list alone.
struct NaiveAccess {
  static constexpr bool kByWarp = false;
  static constexpr int kInFlight = 1;
  HINTERLAND_FN static Strip strip(int, int, int64_t begin, int64_t end, int64_t) { return {begin, end, begin, 1}; }
};

// The lanes of a warp read consecutive elements, from the beginning of the list on.
struct MergedAccess {
  static constexpr bool kByWarp = true;
  static constexpr int kInFlight = kEmogiInFlight;
  HINTERLAND_FN static Strip strip(int lane, int lanes, int64_t begin, int64_t end, int64_t) {
    return {begin, end, begin + lane, lanes};
  }
};

// Listing 2.2: from the cache line on that holds the beginning; lanes before the list idle in the first step.
struct AlignedAccess {
  static constexpr bool kByWarp = true;
  static constexpr int kInFlight = kEmogiInFlight;
  HINTERLAND_FN static Strip strip(int lane, int lanes, int64_t begin, int64_t end, int64_t line_elements) {
    return {begin, end, begin - begin % line_elements + lane, lanes};
  }
};

// What assignments divide. `size` is their one number: vertices of a worker, stride, or elements of a tile.
struct Division {
  static constexpr int64_t kNoVertex = -1;

  const int64_t* offsets;
  int64_t num_vertices, num_edges, size;
  const int64_t* first_vertices;  // of tiles: the vertex that owns the first element of each, and the last vertex
  const int64_t* tiles;           // the tiles to serve, or null: all
  int64_t num_tiles;              // to serve

  HINTERLAND_FN int64_t vertex_or_none(int64_t v) const { return v < num_vertices ? v : kNoVertex; }
  HINTERLAND_FN Piece list(int64_t v) const {
    const memory::Pointer<int64_t> at(offsets);
    const Piece found{at.read_alone(v), at.read_alone(v + 1)};
    return found.lies_within(num_edges) ? found : Piece{};
  }
  // The tiles with elements of that list.
  HINTERLAND_FN Piece tiles_of(int64_t v) const {
    const Piece elements = list(v);
    return elements.length() == 0 ? Piece{} : Piece{elements.begin / size, (elements.end - 1) / size + 1};
  }
};

// A worker serves `size` vertices that follow each other: 1 is EMOGI's warp for each vertex, 8 its chunks, and what fills a
// cache line of BaM its coarsening.
struct ConsecutiveVertices : Division {
  HINTERLAND_FN int64_t workers() const { return ceil_div(num_vertices, size); }
  HINTERLAND_FN int64_t turns(int64_t) const { return size; }
  HINTERLAND_FN int64_t workers_of_warp() const { return max_of<int64_t>(kWarpLanes / size, 1); }
  HINTERLAND_FN int64_t vertex(int64_t worker, int64_t turn) const { return vertex_or_none(worker * size + turn); }
  HINTERLAND_FN Piece piece(int64_t, int64_t v) const { return list(v); }
};

// Listing 6.4 of Mailthody 2022: a worker serves one vertex, and workers that follow each other serve vertices `size` apart.
struct TransposedVertices : Division {
  HINTERLAND_FN int64_t pivot() const { return ceil_div(num_vertices, size); }
  HINTERLAND_FN int64_t workers() const { return pivot() * size; }
  HINTERLAND_FN int64_t turns(int64_t) const { return 1; }
  HINTERLAND_FN int64_t workers_of_warp() const { return kWarpLanes; }
  HINTERLAND_FN int64_t vertex(int64_t worker, int64_t) const {
    return vertex_or_none(worker / pivot() + worker % pivot() * size);
  }
  HINTERLAND_FN Piece piece(int64_t, int64_t v) const { return list(v); }
};

// Listing 6.5: on-demand implicit tiling. A worker serves the lists, or parts of lists, within a tile of `size` elements.
struct EdgeTiles : Division {
  HINTERLAND_FN int64_t workers() const { return num_tiles; }
  HINTERLAND_FN int64_t tile(int64_t worker) const { return tiles == nullptr ? worker : tiles[worker]; }
  HINTERLAND_FN int64_t turns(int64_t worker) const {
    return first_vertices[tile(worker) + 1] - first_vertices[tile(worker)] + 1;
  }
  HINTERLAND_FN int64_t workers_of_warp() const { return 1; }
  HINTERLAND_FN int64_t vertex(int64_t worker, int64_t turn) const { return first_vertices[tile(worker)] + turn; }
  HINTERLAND_FN Piece piece(int64_t worker, int64_t v) const {
    const int64_t begin = tile(worker) * size;
    const Piece whole = list(v);
    return {max_of(whole.begin, begin), min_of(whole.end, begin + size)};
  }
};

// The workers of one warp, in the order in which it serves them. As one warp for each would mean to launch millions that find
// an idle vertex and end, a warp takes several; those of the other warps of its block lie between, so that neighbouring lists
// are still read by neighbouring warps at one time. A warp with several workers has as many turns for each.
template <class Assignment>
struct WarpShare {
  struct Turn {
    int64_t worker, vertex;
  };

  const Assignment& assignment;
  int64_t workers, first, stride, turns_each, turns;

  HINTERLAND_FN WarpShare(const Assignment& assignment, int64_t block, int64_t warp, int64_t warps)
      : assignment(assignment), workers(assignment.workers()), stride(warps) {
    const int64_t count = assignment.workers_of_warp();
    first = block * warps * count + warp;
    turns_each = first < workers ? assignment.turns(first) : 0;
    turns = count * turns_each;
  }

  HINTERLAND_FN Turn turn(int64_t number) const {
    const int64_t worker = first + number / turns_each * stride;
    return {worker, worker < workers ? assignment.vertex(worker, number % turns_each) : Division::kNoVertex};
  }
};

// The worker that a thread is where each is one.
HINTERLAND_FN int64_t thread_worker(int64_t block, int64_t warp, int64_t warps, int lane, int lanes) {
  return (block * warps + warp) * lanes + lane;
}

// Blocks of `warps` warps that serve all workers.
template <class Access, class Assignment>
HINTERLAND_FN int64_t emogi_blocks(const Assignment& assignment, int64_t warps, int64_t lanes) {
  return ceil_div(assignment.workers(), warps * (Access::kByWarp ? assignment.workers_of_warp() : lanes));
}

// Reads one piece of the list of v and visits its edges, in three loops: a warp waits once for several loads. Lanes read alone,
// as they do in the published kernels: each leaves the loop at the end of its own strip.
template <class Access, class Source, class App>
HINTERLAND_FN void walk(const Source& edges, int64_t v, const Piece& piece, App& app) {
  using Edge = typename Source::Element;
  constexpr int64_t kLineElements = kLineBytes / sizeof(Edge);
  constexpr int kInFlight = Access::kInFlight;
  const Strip strip = Access::strip(Warp::lane(), Warp::kWidth, piece.begin, piece.end, kLineElements);
  const typename App::Value own = app.own(v);
  for (int64_t k = 0; strip.at(k) < piece.end && app.goes_on(v, own); k += kInFlight) {
    Edge neighbour[kInFlight];
    typename App::Weight weight[kInFlight];
    typename App::Value seen[kInFlight] = {};  // of idle lanes nobody asks
    for (int j = 0; j < kInFlight; ++j) {
      neighbour[j] = strip.holds(k + j) ? edges.read_alone(strip.at(k + j)) : kIdle;
      weight[j] = strip.holds(k + j) ? app.weight(strip.at(k + j)) : 0;
    }
    for (int j = 0; j < kInFlight; ++j) {
      if (neighbour[j] == kIdle) continue;
      if (static_cast<uint64_t>(static_cast<int64_t>(neighbour[j])) < static_cast<uint64_t>(app.num_vertices)) {
        seen[j] = app.look(neighbour[j]);
      } else {
        app.report_bad(v);
        neighbour[j] = kIdle;
      }
    }
    for (int j = 0; j < kInFlight; ++j)
      if (neighbour[j] != kIdle) app.visit(v, own, neighbour[j], weight[j], seen[j]);
  }
}

// What one warp does in a level.
template <class Access, class Assignment, class Source, class App>
HINTERLAND_FN void serve(const Assignment& assignment, const Source& edges, App& app, int64_t block, int64_t warp,
                         int64_t warps) {
  if constexpr (Access::kByWarp) {
    const WarpShare<Assignment> share(assignment, block, warp, warps);
    for (int64_t from = 0; from < share.turns; from += Warp::kWidth) {
      // A lane looks at the vertex of one turn; then all serve the active ones in order.
      const int64_t number = from + Warp::lane();
      typename WarpShare<Assignment>::Turn turn{0, Division::kNoVertex};
      if (number < share.turns) turn = share.turn(number);
      const bool active = turn.vertex != Division::kNoVertex && app.active(turn.vertex);
      const Piece piece = active ? assignment.piece(turn.worker, turn.vertex) : Piece{0, 0};
      for (uint32_t left = Warp::ballot(active); left != 0; left &= left - 1) {
        const int lane = stdlib::countr_zero(left);
        const Piece served{Warp::broadcast(piece.begin, lane), Warp::broadcast(piece.end, lane)};
        walk<Access>(edges, Warp::broadcast(turn.vertex, lane), served, app);
        app.settle();
      }
    }
  } else {
    const int64_t worker = thread_worker(block, warp, warps, Warp::lane(), Warp::kWidth);
    const int64_t turns = worker < assignment.workers() ? assignment.turns(worker) : 0;
    for (int64_t number = 0; Warp::any(number < turns); ++number) {
      const int64_t v = number < turns ? assignment.vertex(worker, number) : Division::kNoVertex;
      if (v != Division::kNoVertex && app.active(v)) walk<Access>(edges, v, assignment.piece(worker, v), app);
    }
  }
}

// What the applications work on. Costs of whole numbers and labels of components have eight bytes, levels and ranks four, costs
// of floats those of the floats.
struct EmogiState {
  int64_t num_vertices;
  void* values;         // levels, costs, components, or rank that vertices have yet to pass on: [num_vertices]
  uint8_t* active;      // not for BFS, where the level says it
  void* beside;         // components: whose label fell in this level; PageRank: what a vertex gives each neighbour
  const void* weights;  // shortest paths: [num_edges]
  int64_t level;
  int64_t* report;  // whether BFS found a vertex, and the smallest vertex with a bad neighbour
};

// What one level is given.
struct EmogiParams {
  Division division;
  const void* edges;  // Edge [num_edges]
  EmogiState state;
};

struct EmogiApp : EmogiState {
  using Weight = int64_t;
  bool found = false;  // a vertex of the next level; told once a thread, for so many would meet at the report

  HINTERLAND_FN void report_bad(int64_t v) const { atomic_min(report[1], v); }
  HINTERLAND_FN void report_found() const { atomic_store(report[0], int64_t{1}); }
  HINTERLAND_FN Weight weight(int64_t) const { return 0; }
  HINTERLAND_FN bool goes_on(int64_t, int64_t) const { return true; }
  HINTERLAND_FN void settle() const {}  // what all lanes do together after a list
};

struct EmogiBfs : EmogiApp {
  using Value = int32_t;

  HINTERLAND_FN int32_t& label(int64_t v) const { return static_cast<int32_t*>(values)[v]; }
  HINTERLAND_FN bool active(int64_t v) const { return atomic_load(label(v)) == level; }
  HINTERLAND_FN Value own(int64_t) const { return 0; }
  HINTERLAND_FN Value look(int64_t v) const { return atomic_load(label(v)); }
  HINTERLAND_FN void visit(int64_t, Value, int64_t w, int64_t, Value seen) {
    if (seen != -1) return;
    atomic_store(label(w), static_cast<int32_t>(level + 1));  // whoever else stores, stores the same
    found = true;
  }
};

// Bellman and Ford's algorithm over the vertices whose cost fell in the level before. Costs are the keys of shortest paths:
// those of floats add up as floats do.
template <class WeightType>
struct EmogiSssp : EmogiApp {
  using Weight = WeightType;
  using Paths = Shortest<stdlib::conditional_t<stdlib::is_floating_point_v<Weight>, Weight, int64_t>>;
  using Value = typename Paths::Key;

  HINTERLAND_FN Value& cost(int64_t v) const { return static_cast<Value*>(values)[v]; }
  HINTERLAND_FN bool active(int64_t v) const { return EmogiState::active[v] != 0; }
  HINTERLAND_FN Value own(int64_t v) const { return look(v); }
  HINTERLAND_FN Value look(int64_t v) const { return atomic_load(cost(v)); }
  HINTERLAND_FN Weight weight(int64_t i) const { return memory::Pointer<Weight>(weights).read_alone(i); }
  // A vertex whose own cost has fallen meanwhile will be served again, with the better cost.
  HINTERLAND_FN bool goes_on(int64_t v, Value own) const { return look(v) == own; }
  HINTERLAND_FN void visit(int64_t, Value own, int64_t w, Weight weight, Value seen) const {
    const Value offer = Paths::extend(own, weight);
    if (offer < seen) atomic_min(cost(w), offer);
  }
};

// The smaller of two neighbours' labels goes to the other, until no label falls.
struct EmogiComponents : EmogiApp {
  using Value = int64_t;

  HINTERLAND_FN Value& label(int64_t v) const { return static_cast<Value*>(values)[v]; }
  HINTERLAND_FN bool active(int64_t v) const { return EmogiState::active[v] != 0; }
  HINTERLAND_FN Value own(int64_t v) const { return look(v); }
  HINTERLAND_FN Value look(int64_t v) const { return atomic_load(label(v)); }
  HINTERLAND_FN void visit(int64_t v, Value own, int64_t w, int64_t, Value seen) const {
    if (own == seen) return;
    const int64_t loser = own < seen ? w : v;
    atomic_min(label(loser), min_of(own, seen));
    atomic_store(static_cast<uint8_t*>(beside)[loser], uint8_t{1});
  }
};

// Vertices with more than the tolerance yet to pass on give each neighbour its part.
struct EmogiPagerank : EmogiApp {
  using Value = float;

  HINTERLAND_FN bool active(int64_t v) const { return EmogiState::active[v] != 0; }
  HINTERLAND_FN Value own(int64_t v) const { return static_cast<const float*>(beside)[v]; }
  HINTERLAND_FN Value look(int64_t) const { return 0; }
  HINTERLAND_FN bool goes_on(int64_t, Value) const { return true; }
  HINTERLAND_FN void visit(int64_t, Value own, int64_t w, int64_t, Value) const {
    atomic_add(static_cast<float*>(values)[w], own);
  }
};

}  // namespace hinterland::emogi
