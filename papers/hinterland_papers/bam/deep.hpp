// A search of many levels over edges on storage, in one launch: BaM's active cache lines (Mailthody 2022, section 8.2). Whoever
// finds a vertex lists the tiles that its neighbours lie in, each once for a level, and the warps serve what is listed. So a
// level costs one barrier, what it reads, and a look at the vertices of its tiles, however many others there are.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/graph/frontier.hpp"
#include "hinterland_papers/bam/stored.hpp"

namespace hinterland::bam {

struct EmogiDeepParams {
  EmogiStoredParams stored;  // of tiles; its level's values: levels, of which the source has 0
  int64_t source;
  int32_t* listed;  // [tiles]: the last level for which each was listed; -1 at the start
  int64_t* queues;  // [2][tiles]: tiles to serve in this level, and in the next
  int64_t* counts;  // [3]: of the queues, in turns, for one is cleared while two are in use; zeros at the start
  TeamControl* team;
};

// Lists tiles as it finds vertices. Those of long lists all lanes list together, once a list is read.
struct EmogiDeepBfs : EmogiBfs {
  static constexpr int64_t kAlone = 8;  // tiles of a list that a lane lists by itself: a guess
  static constexpr int kKept = 2;       // long lists that a lane keeps for later; further ones it lists, too

  const Division& division;
  int32_t* listed;
  graph::AppendQueue<int64_t> following;
  Piece kept[kKept] = {};
  int num_kept = 0;

  HINTERLAND_FN void list_tile(int64_t tile) const {
    const auto next = static_cast<int32_t>(level + 1);
    const int32_t last = atomic_load(listed[tile]);
    if (last != next && atomic_cas(listed[tile], last, next) == last) following.append(tile);
  }
  HINTERLAND_FN void visit(int64_t, Value, int64_t w, int64_t, Value seen) {
    if (seen != -1 || atomic_cas(label(w), -1, static_cast<int32_t>(level + 1)) != -1) return;
    const Piece tiles = division.tiles_of(w);
    if (tiles.length() > kAlone && num_kept < kKept)
      kept[num_kept++] = tiles;
    else
      for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) list_tile(tile);
  }
  HINTERLAND_FN void settle() {
    for (int i = 0; i < kKept; ++i)
      for (uint32_t left = Warp::ballot(i < num_kept); left != 0; left &= left - 1) {
        const int lane = stdlib::countr_zero(left);
        const int64_t begin = Warp::broadcast(kept[i].begin, lane), end = Warp::broadcast(kept[i].end, lane);
        for (int64_t tile = begin + Warp::lane(); tile < end; tile += Warp::kWidth) list_tile(tile);
      }
    num_kept = 0;
  }
};

template <class Edge, class Sources, class Team>
HINTERLAND_FN void search_by_tiles(Team& team, const EmogiDeepParams& p) {
  const EmogiParams& whole = p.stored.level;
  const int64_t tiles = whole.division.num_tiles;
  const typename Sources::template Large<Edge> edges(p.stored.edges, whole.division.num_edges);
  const auto app_at = [&](int64_t level) {
    EmogiDeepBfs app{
        {{whole.state}}, whole.division, p.listed, {p.queues + (level + 1) % 2 * tiles, &p.counts[(level + 1) % 3], tiles}};
    app.level = level;
    return app;
  };
  const Piece first = whole.division.tiles_of(p.source);
  for_each(team, first.length(), [&](int64_t i) { app_at(-1).list_tile(first.begin + i); });
  for (int64_t level = 0;; ++level) {
    const int64_t count = atomic_load(p.counts[level % 3]);
    if (count == 0) return;
    team.single([&] { p.counts[(level + 2) % 3] = 0; });
    team.dynamic_for(count, [&](const auto& each) {
      EmogiDeepBfs app = app_at(level);
      each([&](int64_t i) {
        EdgeTiles tile{whole.division};
        tile.tiles = p.queues + level % 2 * tiles + i;
        tile.num_tiles = 1;
        serve<AlignedAccess>(tile, edges, app, 0, 0, 1);
      });
    });
  }
}

}  // namespace hinterland::bam
