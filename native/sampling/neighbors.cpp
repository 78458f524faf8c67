#include "sampling/neighbors.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void sample_neighbors(const sampling::BatchWords& batch, int64_t from, int64_t to) {
  // Lists of one call have the form of those of its first step.
  const int64_t first = from == 0 ? 0 : (from - 1) / 2 % batch.num_relations;
  with_graph(*batch.relations[first].lists, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    sampling::sample_neighbors<std::decay_t<decltype(graph)>, true>(team, batch, from, to);
  });
}

}  // namespace hinterland::native
