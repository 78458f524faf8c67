// Neighbour sampling by a warp of 32 emulated lanes, as a library that takes the place of the native one (conftest.py).
#include "graph/views.hpp"
#include "hinterland/sampling/neighbors.hpp"
#include "lane_team.hpp"

extern "C" void sample_neighbors(const hinterland::sampling::BatchWords* batch, int64_t from, int64_t to) {
  using namespace hinterland;
  const int64_t first = from == 0 ? 0 : (from - 1) / 2 % batch->num_relations;
  native::with_graph(*batch->relations[first].lists, nullptr, [&](const auto& graph, const auto*) {
    using Graph = std::decay_t<decltype(graph)>;
    Lanes::run([&] {
      LaneTeam team;
      sampling::sample_neighbors<Graph, true>(team, *batch, from, to);
    });
  });
}
