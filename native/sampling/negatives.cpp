#include "sampling/negatives.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void negative_edges(const sampling::NegativeParams& params) {
  with_graph_of<Sources>(*params.graph, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    sampling::negative_edges<std::decay_t<decltype(graph)>>(team, params);
  });
}

}  // namespace hinterland::native
