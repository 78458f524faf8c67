// A search by active tiles as a warp of a GPU runs it, through a cache of eight lines, against levels that spread along edges one by
// one. Each tile is listed once for a level, or its queue would have no room. Prints the first seed that goes wrong.
#include <unistd.h>

#include "../storage/warps.hpp"
#include "hinterland/graph/emogi_deep.hpp"
#include "lane_team.hpp"

using namespace test;

namespace {

using Through = storage::OnStorage<Storage<Staged>::Store>;

template <class Edge>
bool agrees(unsigned seed) {
  std::mt19937 random(seed);
  Storage<Staged> storage({.line = 512}, Faults{.late = 4, .reorder = true}, seed);
  // Long ways and hubs; vertices without edges; an edge leads back, or anywhere.
  const int64_t vertices = 1 + random() % 200, size = 1 + random() % 128;
  std::vector<int64_t> offsets{0};
  std::vector<Edge> edges;
  for (int64_t v = 0; v < vertices; ++v) {
    const int64_t kind = random() % 30, degree = kind == 0 ? random() % 300 : kind < 4 ? 0 : 1 + random() % 3;
    for (int64_t i = 0; i < degree; ++i)
      edges.push_back(i == 0 && v + 1 < vertices ? v + 1 : random() % (kind == 0 ? vertices : v + 1));
    offsets.push_back(static_cast<int64_t>(edges.size()));
  }
  const auto num_edges = static_cast<int64_t>(edges.size());
  if (num_edges > 0) std::memcpy(&storage.disk()[512], edges.data(), edges.size() * sizeof(Edge));
  std::vector<int64_t> firsts;
  for (int64_t i = 0; i < num_edges; i += size)
    firsts.push_back(std::upper_bound(offsets.begin(), offsets.end(), i) - offsets.begin() - 1);
  firsts.push_back(vertices - 1);
  const auto tiles = static_cast<int64_t>(firsts.size()) - 1;

  const int64_t source = random() % vertices;
  std::vector<int32_t> expected(vertices, -1);
  expected[source] = 0;
  for (std::vector<int64_t> reached{source}; !reached.empty();) {
    std::vector<int64_t> next;
    for (const int64_t v : reached)
      for (int64_t i = offsets[v]; i < offsets[v + 1]; ++i)
        if (expected[edges[i]] == -1) expected[edges[i]] = expected[v] + 1, next.push_back(edges[i]);
    reached = next;
  }

  std::vector<int32_t> levels(vertices, -1), listed(tiles, -1);
  levels[source] = 0;
  std::vector<int64_t> queues(2 * tiles);
  int64_t counts[3] = {}, report[2] = {};
  graph::EmogiDeepParams params{};
  params.stored.level.division = {offsets.data(), vertices, num_edges, size, firsts.data(), nullptr, tiles};
  params.stored.level.state = {vertices, levels.data(), nullptr, nullptr, nullptr, 0, report};
  params.stored.edges = {reinterpret_cast<const void*>(uint64_t{512}), nullptr, nullptr, &storage.store};
  params.source = source;
  params.listed = listed.data();
  params.queues = queues.data();
  params.counts = counts;
  run_warp([&] {
    LaneTeam team;
    graph::search_by_tiles<Edge, Through>(team, params);
  });
  CHECK(storage.status() == 0, "status %x", storage.status());
  return levels == expected;
}

}  // namespace

int main() {
  alarm(300);
  for (unsigned seed = 0; seed < 40; ++seed)
    if (!agrees<int32_t>(seed) || !agrees<int64_t>(seed)) {
      std::printf("seed %u\n", seed);
      return 1;
    }
}
