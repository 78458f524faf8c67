// A search by active tiles over a random graph, and the levels that spread along its edges one by one.
#pragma once

#include <algorithm>
#include <random>
#include <vector>

#include "hinterland_papers/bam/deep.hpp"

namespace test {

using namespace hinterland;

template <class Edge>
struct DeepSearch {
  std::vector<int64_t> offsets{0}, firsts, queues;
  std::vector<Edge> edges;
  std::vector<int32_t> expected, levels, listed;
  int64_t counts[3] = {}, report[2] = {};
  bam::EmogiDeepParams params{};

  // Long ways and hubs; vertices without edges; an edge leads on, back, or anywhere.
  explicit DeepSearch(unsigned seed) {
    std::mt19937 random(seed);
    const int64_t vertices = 1 + random() % 200, size = 1 + random() % (seed % 2 == 0 ? 128 : 8);
    for (int64_t v = 0; v < vertices; ++v) {
      const int64_t kind = random() % 30, degree = kind == 0 ? random() % 300 : kind < 4 ? 0 : 1 + random() % 3;
      for (int64_t i = 0; i < degree; ++i)
        edges.push_back(static_cast<Edge>(i == 0 && v + 1 < vertices ? v + 1 : random() % (kind == 0 ? vertices : v + 1)));
      offsets.push_back(static_cast<int64_t>(edges.size()));
    }
    const auto num_edges = static_cast<int64_t>(edges.size());
    for (int64_t i = 0; i < num_edges; i += size)
      firsts.push_back(std::upper_bound(offsets.begin(), offsets.end(), i) - offsets.begin() - 1);
    firsts.push_back(vertices - 1);
    const auto tiles = static_cast<int64_t>(firsts.size()) - 1;
    params.source = static_cast<int64_t>(random() % vertices);

    expected.assign(vertices, -1);
    levels = expected;
    listed.assign(tiles, -1);
    queues.resize(2 * tiles);
    expected[params.source] = levels[params.source] = 0;
    for (std::vector<int64_t> reached{params.source}, next; !reached.empty(); std::swap(reached, next), next.clear())
      for (const int64_t v : reached)
        for (int64_t i = offsets[v]; i < offsets[v + 1]; ++i)
          if (expected[edges[i]] == -1) expected[edges[i]] = expected[v] + 1, next.push_back(edges[i]);

    params.stored.level.division = {offsets.data(), vertices, num_edges, size, firsts.data(), nullptr, tiles};
    params.stored.level.state = {vertices, levels.data(), nullptr, nullptr, nullptr, 0, report};
    params.stored.edges.home = edges.data();
    params.listed = listed.data();
    params.queues = queues.data();
    params.counts = counts;
  }
  DeepSearch(const DeepSearch&) = delete;

  // Whether the tiles of a level are each there once.
  bool has_each_once(int64_t level, int64_t count) const {
    const auto begin = queues.begin() + level % 2 * static_cast<int64_t>(listed.size());
    if (count > static_cast<int64_t>(listed.size())) return false;
    std::vector<int64_t> tiles(begin, begin + count);
    std::sort(tiles.begin(), tiles.end());
    return std::adjacent_find(tiles.begin(), tiles.end()) == tiles.end();
  }
};

}  // namespace test
