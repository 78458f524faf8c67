// BaM's ways of giving a traversal's work to warps, over edges on storage (Mailthody 2022, section 6.3): a level of EMOGI whose
// edges are read through any source. Where they lie on storage the lanes of a warp read together, since whoever waits holds no
// line. Two more ways are here than in memory: coarsening far apart, the negative control, and tiles that a warp copies whole
// before it serves their vertices.
#pragma once

#include "hinterland/storage/source.hpp"
#include "hinterland_papers/emogi/traversal.hpp"

namespace hinterland::bam {

using namespace emogi;  // whose program it is

struct EmogiStoredParams {
  EmogiParams level;  // its edges are those:
  memory::ArrayWords edges;
};

inline constexpr int64_t kTileBytes = 4096;  // at the most, of a tile that is copied

// The control of coarsening: a worker serves vertices far from each other, so that no line is used again (section 6.2).
struct FarVertices : Division {
  HINTERLAND_FN int64_t workers() const { return ceil_div(num_vertices, size); }
  HINTERLAND_FN int64_t turns(int64_t) const { return size; }
  HINTERLAND_FN int64_t workers_of_warp() const { return max_of<int64_t>(kWarpLanes / size, 1); }
  HINTERLAND_FN int64_t vertex(int64_t worker, int64_t turn) const { return vertex_or_none(worker + turn * workers()); }
  HINTERLAND_FN Piece piece(int64_t, int64_t v) const { return list(v); }
};

}  // namespace hinterland::bam

namespace hinterland::emogi {  // where serve() looks for it

// As walk() of what lies in memory, by all lanes together.
template <class Access, class Edge, class Store, class App>
HINTERLAND_FN void walk(const storage::Stored<Edge, Store>& edges, int64_t v, const Piece& piece, App& app) {
  constexpr int kInFlight = 4;  // a guess
  const Strip strip = Access::strip(Warp::lane(), Warp::kWidth, piece.begin, piece.end, kLineBytes / sizeof(Edge));
  const int64_t steps = Warp::broadcast(strip.steps(), 0);  // no lane has more
  const typename App::Value own = app.own(v);
  memory::NoMeter meter;
  for (int64_t k = 0; k < steps; k += kInFlight) {
    int64_t at[kInFlight];
    Edge neighbour[kInFlight];
    typename App::Value seen[kInFlight];
    for (int j = 0; j < kInFlight; ++j) at[j] = strip.holds(k + j) ? strip.at(k + j) : memory::kNowhere;
    edges.read(at, neighbour, meter);
    for (int j = 0; j < kInFlight; ++j) {
      if (at[j] == memory::kNowhere) continue;
      if (static_cast<uint64_t>(static_cast<int64_t>(neighbour[j])) < static_cast<uint64_t>(app.num_vertices)) {
        seen[j] = app.look(neighbour[j]);
      } else {
        app.report_bad(v);
        at[j] = memory::kNowhere;
      }
    }
    for (int j = 0; j < kInFlight; ++j)
      if (at[j] != memory::kNowhere) app.visit(v, own, neighbour[j], 0, seen[j]);
  }
}

}  // namespace hinterland::emogi

namespace hinterland::bam {

// A tile as a warp has copied it.
template <class Edge>
struct TileInHand {
  using Element = Edge;
  const Edge* elements;
  int64_t begin;

  HINTERLAND_FN Edge read_alone(int64_t at) const { return elements[at - begin]; }
};

// Elements [begin, end), which are copied to memory that the warp shares when the first of them is asked for (section 6.3.6).
template <class Edge, class Source>
struct CopiedTile {
  const Source& edges;
  Edge* copy;
  int64_t begin, end;
  mutable bool is_copied = false;

  HINTERLAND_FN TileInHand<Edge> in_hand() const {
    constexpr int kInFlight = 4;
    memory::NoMeter meter;
    for (int64_t from = begin; from < end && !is_copied; from += kInFlight * Warp::kWidth) {
      int64_t at[kInFlight];
      Edge found[kInFlight];
      for (int k = 0; k < kInFlight; ++k) {
        at[k] = from + k * Warp::kWidth + Warp::lane();
        if (at[k] >= end) at[k] = memory::kNowhere;
      }
      edges.read(at, found, meter);
      for (int k = 0; k < kInFlight; ++k)
        if (at[k] != memory::kNowhere) copy[at[k] - begin] = found[k];
    }
    Warp::sync();
    is_copied = true;
    return {copy, begin};
  }
};

template <class Access, class Edge, class Source, class App>
HINTERLAND_FN void walk(const CopiedTile<Edge, Source>& tile, int64_t v, const Piece& piece, App& app) {
  walk<Access>(tile.in_hand(), v, piece, app);
}

// What one warp does in a level. `copy`: memory that its lanes share for a tile, or null where none is copied.
template <class Assignment, class Edge, bool kCopies, class Sources, class App>
HINTERLAND_FN void serve_stored(const EmogiStoredParams& p, App& app, Edge* copy, int64_t block, int64_t warp, int64_t warps) {
  const Assignment assignment{p.level.division};
  const typename Sources::template Large<Edge> edges(p.edges, assignment.num_edges);
  if constexpr (kCopies) {
    const int64_t worker = block * warps + warp;
    if (worker >= assignment.workers()) return;
    const int64_t begin = assignment.tile(worker) * assignment.size;
    const CopiedTile<Edge, decltype(edges)> tile{edges, copy, begin, min_of(begin + assignment.size, assignment.num_edges)};
    serve<AlignedAccess>(assignment, tile, app, block, warp, warps);
  } else {
    serve<AlignedAccess>(assignment, edges, app, block, warp, warps);
  }
}

}  // namespace hinterland::bam
