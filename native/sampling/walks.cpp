#include "sampling/walks.hpp"

#include "core/team.hpp"
#include "graph/views.hpp"

namespace hinterland::native {

void random_walks(const graph::GraphWords& words, const sampling::WalkWords& task) {
  with_graph(words, nullptr, [&](const auto& graph, const auto*) {
    ThreadTeam team;
    sampling::random_walks<std::decay_t<decltype(graph)>>(team, words, task);
  });
}

}  // namespace hinterland::native
