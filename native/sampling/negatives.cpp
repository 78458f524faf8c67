#include "sampling/negatives.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void negative_edges(const graph::GraphWords& words, const sampling::NegativeWords& task, int64_t phase) {
  with_graph(words, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    sampling::negative_edges<std::decay_t<decltype(graph)>>(team, words, task, phase);
  });
}

}  // namespace hinterland::native
