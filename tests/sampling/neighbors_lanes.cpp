// Neighbour sampling by a warp of 32 emulated lanes, as a library that takes the place of the native one (conftest.py).
#include "hinterland/sampling/neighbors.hpp"
#include "lane_team.hpp"
#include "lists_of_lanes.hpp"

extern "C" void sample_neighbors(const hinterland::sampling::SampleParams* params) {
  using namespace hinterland;
  const int64_t first = params->first == 0 ? 0 : (params->first - 1) / 2 % params->num_relations;
  with_lists_of_lanes(*params->relations[first].lists, [&](const auto& graph) {
    using Graph = std::decay_t<decltype(graph)>;
    Lanes::run([&] {
      LaneTeam team;
      sampling::sample_neighbors<Graph, true>(team, *params);
    });
  });
}
