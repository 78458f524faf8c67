// Connected components and their verifier on the CPU.
#include "hinterland/graph/cc.hpp"

#include <numeric>
#include <vector>

#include "core/team.hpp"
#include "graph/bind_views.hpp"
#include "graph/entries.hpp"
#include "graph/findings.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::ComponentsParams, graph, incoming, reread, labels, seconds, scratch);
HINTERLAND_STRUCT(graph::ComponentsControl, count, padding0, rarest, padding1);

namespace {

// id_bytes (4 or 8) is the width of a label.
void connected_components(const graph::ComponentsParams& p, int id_bytes) {
  with_graph(*p.graph, p.incoming, id_bytes, [&]<class Graph>(const Graph& graph, const Graph* incoming) {
    const auto run = [&]<class Id>() {
      ThreadTeam team;
      const graph::ComponentsState<Id> state(p, graph.num_vertices, graph.num_edges);
      graph::connected_components(team, graph, incoming, state, p.reread != 0);
    };
    if constexpr (sizeof(typename Graph::Edge) == 8)
      if (id_bytes == 8) return run.template operator()<uint64_t>();
    run.template operator()<uint32_t>();
  });
}

// In the order in which they are reported. kGraph and kEdge are about an edge, the others about a vertex.
enum class ComponentsRule : int64_t { kNone, kSmallest, kGraph, kEdge, kConnected };

using Findings = FirstBroken<ComponentsRule, ComponentsRule::kConnected>;

void check_labels(int64_t num_vertices, const int64_t* labels, Findings& found) {
  parallel_for(num_vertices, [&](int64_t v) {
    if (labels[v] < 0 || labels[v] > v || labels[labels[v]] != labels[v]) found.report(ComponentsRule::kSmallest, v);
  });
}

template <class Graph>
void check_edges(const Graph& graph, const int64_t* labels, Findings& found) {
  for_each_vertex(graph, [&](int64_t u) {
    for_each_entry(graph, u, [&](int64_t i, int64_t v) {
      if (!graph.has(v))
        found.report(ComponentsRule::kGraph, i);
      else if (labels[v] != labels[u])
        found.report(ComponentsRule::kEdge, i);
    });
  });
}

// Sets joined edge by edge, by all threads: whoever finds two roots puts the larger below the smaller, unless another was
// first.
template <class Id>
class DisjointSets {
 public:
  explicit DisjointSets(int64_t count) : above_(count) { std::iota(above_.begin(), above_.end(), Id{0}); }

  Id find(Id v) {
    while (true) {
      const Id up = atomic_load(above_[v]), top = atomic_load(above_[up]);
      if (up == top) return up;
      atomic_cas(above_[v], up, top);
      v = top;
    }
  }

  // Whether they were two.
  bool join(Id a, Id b) {
    while ((a = find(a)) != (b = find(b))) {
      if (a < b) std::swap(a, b);
      if (atomic_cas(above_[a], a, b) == a) return true;
    }
    return false;
  }

 private:
  std::vector<Id> above_;
};

// Labels that agree along every edge are at most as many as there are components; if they are as many, each is one.
template <class Id, class Graph>
void check_connected(const Graph& graph, const int64_t* labels, Findings& found) {
  DisjointSets<Id> sets(graph.num_vertices);
  int64_t num_joined = 0, num_labels = 0;
  for_each_vertex(graph, [&](int64_t u) {
    int64_t joined = 0;
    for_each_entry(graph, u, [&](int64_t, int64_t v) {
      if (graph.has(v)) joined += sets.join(u, v);
    });
    if (joined != 0) atomic_add(num_joined, joined);
    if (labels[u] == u) atomic_add(num_labels, int64_t{1});
  });
  if (graph.num_vertices - num_joined == num_labels) return;
  int64_t v = 0;
  while (v < graph.num_vertices - 1 && sets.find(v) == sets.find(labels[v])) ++v;
  found.report(ComponentsRule::kConnected, v);
}

Finding verify_components(const graph::GraphWords& words, const int64_t* labels) {
  Findings found;
  check_labels(words.num_vertices, labels, found);
  if (found.any()) return found.finding();
  with_lists_of_any_kind(words, [&](const auto& graph) {
    check_edges(graph, labels, found);
    if (found.any()) return;
    words.edge_bytes == 4 ? check_connected<uint32_t>(graph, labels, found) : check_connected<uint64_t>(graph, labels, found);
  });
  return found.finding();
}

}  // namespace

const Binding graph_cc([](nb::module_& m) {
  m.attr("COMPONENTS_RULES") = named<ComponentsRule>({{"smallest", ComponentsRule::kSmallest},
                                                      {"graph", ComponentsRule::kGraph},
                                                      {"edge", ComponentsRule::kEdge},
                                                      {"connected", ComponentsRule::kConnected}});
  def_layout(m, "components_layout", &graph::ComponentsState<uint32_t>::control);
  def_loop(m, "connected_components", connected_components, nb::arg("id_bytes"));
  def_native(m, "verify_components", verify_components, nb::arg("graph"), nb::arg("labels"));
});

}  // namespace hinterland::native
