// Random walks and negative edges by a warp of 32 emulated lanes, as a library that takes the place of the native ones.
#include "hinterland/sampling/negatives.hpp"
#include "hinterland/sampling/walks.hpp"
#include "lane_team.hpp"
#include "lists_of_lanes.hpp"

using namespace hinterland;

namespace {

template <class F>
void in_lanes(const graph::GraphWords& words, const F& f) {
  with_lists_of_lanes(words, [&](const auto& graph) {
    Lanes::run([&] {
      LaneTeam team;
      f(team, graph);
    });
  });
}

}  // namespace

extern "C" void random_walks(const sampling::WalkParams* params) {
  in_lanes(*params->graph,
           [&](LaneTeam& team, const auto& graph) { random_walks<std::decay_t<decltype(graph)>>(team, *params); });
}

extern "C" void negative_edges(const sampling::NegativeParams* params) {
  in_lanes(*params->graph,
           [&](LaneTeam& team, const auto& graph) { negative_edges<std::decay_t<decltype(graph)>>(team, *params); });
}
