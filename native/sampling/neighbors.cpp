#include "sampling/neighbors.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void sample_neighbors(const sampling::SampleParams& params) {
  // Lists of one call have the form of those of its first step.
  const int64_t first = params.first == 0 ? 0 : (params.first - 1) / 2 % params.num_relations;
  with_graph_of<Sources>(*params.relations[first].lists, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    sampling::sample_neighbors<std::decay_t<decltype(graph)>, true>(team, params);
  });
}

}  // namespace hinterland::native
