#include "sampling/walks.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void random_walks(const sampling::WalkParams& params) {
  with_graph_of<Sources>(*params.graph, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    sampling::random_walks<std::decay_t<decltype(graph)>>(team, params);
  });
}

}  // namespace hinterland::native
