// A search of many levels over edges on storage, in one launch: BaM's active cache lines (Mailthody 2022, section 8.2). Whoever
// finds a vertex lists the tiles that its neighbours lie in, each once for a level, and the warps serve what is listed. So a level
// costs what it reads and one barrier, however many vertices there are.
#pragma once

#include "hinterland/core/grid.hpp"
#include "hinterland/graph/emogi_stored.hpp"
#include "hinterland/graph/frontier.hpp"

namespace hinterland::graph {

struct EmogiDeepParams {
  EmogiStoredParams stored;  // of tiles; its level's values: levels, of which the source has 0
  int64_t source;
  int32_t* listed;  // [tiles]: the last level for which each was listed; -1 at the start
  int64_t* queues;  // [2][tiles]: tiles to serve in this level, and in the next
  int64_t* counts;  // [3]: of the queues, in turns, for one is cleared while two are in use; zeros at the start
  TeamControl* team;
};

// Lists tiles as it finds vertices.
struct EmogiDeepBfs : EmogiBfs {
  const Division& division;
  int32_t* listed;
  AppendQueue<int64_t> following;

  HINTERLAND_FN void list_tiles(int64_t v) const {
    const Piece list = division.list(v);
    const auto next = static_cast<int32_t>(level + 1);
    if (list.length() == 0) return;
    for (int64_t tile = list.begin / division.size; tile * division.size < list.end; ++tile) {
      const int32_t last = atomic_load(listed[tile]);
      if (last != next && atomic_cas(listed[tile], last, next) == last) following.append(tile);
    }
  }
  HINTERLAND_FN void visit(int64_t, Value, int64_t w, int64_t, Value seen) {
    if (seen == -1 && atomic_cas(label(w), -1, static_cast<int32_t>(level + 1)) == -1) list_tiles(w);
  }
};

template <class Edge, class Sources, class Team>
HINTERLAND_FN void search_by_tiles(Team& team, const EmogiDeepParams& p) {
  const EmogiParams& whole = p.stored.level;
  const int64_t tiles = whole.division.num_tiles;
  const typename Sources::template Large<Edge> edges(p.stored.edges, whole.division.num_edges);
  const auto app_at = [&](int64_t level) {
    EmogiDeepBfs app{{{whole.state}}, whole.division, p.listed, {}};
    app.level = level;
    app.following = {p.queues + (level + 1) % 2 * tiles, &p.counts[(level + 1) % 3], tiles};
    return app;
  };
  team.single([&] { app_at(-1).list_tiles(p.source); });
  team.wait();
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

}  // namespace hinterland::graph
