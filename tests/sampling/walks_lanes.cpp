// Random walks and negative edges by a warp of 32 emulated lanes, as a library that takes the place of the native ones.
#include "graph/views.hpp"
#include "hinterland/sampling/negatives.hpp"
#include "hinterland/sampling/walks.hpp"
#include "lane_team.hpp"

using namespace hinterland;

namespace {

template <class F>
void in_lanes(const graph::GraphWords& words, const F& f) {
  native::with_graph(words, nullptr, [&](const auto& graph, const auto*) {
    Lanes::run([&] {
      LaneTeam team;
      f(team, graph);
    });
  });
}

}  // namespace

extern "C" void random_walks(const graph::GraphWords* words, const sampling::WalkWords* task) {
  in_lanes(*words, [&](LaneTeam& team, const auto& graph) {
    random_walks<std::decay_t<decltype(graph)>>(team, *words, *task);
  });
}

extern "C" void negative_edges(const graph::GraphWords* words, const sampling::NegativeWords* task, int64_t phase) {
  in_lanes(*words, [&](LaneTeam& team, const auto& graph) {
    negative_edges<std::decay_t<decltype(graph)>>(team, *words, *task, phase);
  });
}
