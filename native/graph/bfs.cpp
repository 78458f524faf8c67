// Breadth-first search and its verifier on the CPU.
#include "hinterland/graph/bfs.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/team.hpp"
#include "graph/bfs_lists.hpp"
#include "graph/bind_views.hpp"
#include "graph/entries.hpp"
#include "graph/findings.hpp"
#include "hinterland/core/philox.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::BfsParams, graph, incoming, source, parents, levels, scratch);

namespace {

// Vertices whose numbers take more than 32 bits leave no room for a level in the same word.
template <class Graph>
void bfs_of_wide(const Graph& graph, const Graph* incoming, const graph::BfsParams& p) {
  std::fill_n(p.levels, graph.num_vertices, -1);
  std::fill_n(static_cast<int64_t*>(p.parents), graph.num_vertices, -1);
  ThreadTeam team;
  graph::bfs(team, graph, incoming, graph::BfsState<uint64_t>(p, graph.num_vertices, graph.num_edges), p.source);
}

// Parents are int64 for all graphs, and what both arrays hold before does not count. id_bytes (4 or 8): of a vertex' number.
void bfs(const graph::BfsParams& p, int id_bytes) {
  with_graph(*p.graph, p.incoming, id_bytes, [&]<class Graph>(const Graph& graph, const Graph* incoming) {
    if constexpr (sizeof(typename Graph::Edge) == 8)
      if (id_bytes == 8) return bfs_of_wide(graph, incoming, p);
    const graph::BfsState<uint32_t> state(p, graph.num_vertices, graph.num_edges);
    const auto listed = std::make_unique_for_overwrite<uint32_t[]>(graph.num_vertices);
    ListSearch<Graph> search(graph, incoming, state, static_cast<uint64_t*>(p.parents), listed.get());
    search.run(p.source);
    search.finish(p.levels, static_cast<int64_t*>(p.parents));
  });
}

// In the order in which they are reported. kGraph, kClosed and kEdgeLevel are about an edge, the others about a vertex.
enum class BfsRule : int64_t { kNone, kSource, kReached, kTreeLevel, kGraph, kClosed, kEdgeLevel, kTreeEdge };

using Findings = FirstBroken<BfsRule, BfsRule::kTreeEdge>;

// Levels alone: each row of levels, which may come without parents.
void check_levels(int64_t num_vertices, int64_t source, const int32_t* levels, Findings& found) {
  if (levels[source] != 0) found.report(BfsRule::kSource, source);
  parallel_for(num_vertices, [&](int64_t v) {
    if (v != source && (levels[v] < -1 || levels[v] == 0)) found.report(BfsRule::kReached, v);
  });
}

void check_vertices(int64_t num_vertices, int64_t source, const int32_t* levels, const int64_t* parents, Findings& found) {
  if (levels[source] != 0 || parents[source] != source) found.report(BfsRule::kSource, source);
  parallel_for(num_vertices, [&](int64_t v) {
    if (v == source) return;
    const int64_t parent = parents[v];
    if (parent < -1 || parent >= num_vertices || levels[v] < -1 || (parent == -1) != (levels[v] == -1))
      found.report(BfsRule::kReached, v);
    else if (parent != -1 && (levels[parent] == -1 || levels[v] != levels[parent] + 1))
      found.report(BfsRule::kTreeLevel, v);
  });
}

template <class Graph>
void check_edges(const Graph& graph, const int32_t* levels, const int64_t* parents, Findings& found) {
  std::vector<uint32_t> has_tree_edge(ceil_div<int64_t>(graph.num_vertices, graph::kGroup));
  for_each_vertex(graph, [&](int64_t u) {
    if (levels[u] == -1) return;
    for_each_entry(graph, u, [&](int64_t i, int64_t v) {
      if (!graph.has(v)) {
        found.report(BfsRule::kGraph, i);
      } else if (levels[v] == -1) {
        found.report(BfsRule::kClosed, i);
      } else if (levels[v] > levels[u] + 1) {
        found.report(BfsRule::kEdgeLevel, i);
      } else if (parents != nullptr ? parents[v] == u : levels[v] == levels[u] + 1) {
        uint32_t& word = has_tree_edge[graph::group_of(v)];
        if (!(atomic_load(word) & graph::bit_of(v))) atomic_or(word, graph::bit_of(v));
      }
    });
  });
  parallel_for(graph.num_vertices, [&](int64_t v) {
    if (levels[v] > 0 && !(has_tree_edge[graph::group_of(v)] & graph::bit_of(v))) found.report(BfsRule::kTreeEdge, v);
  });
}

// The rules of Graph500 for a breadth-first search tree (graph500.org, specification, "validation"), checked in one pass over
// the vertices and one over the edges. Nothing is traversed again: a result that obeys the rules is a shortest-path tree.
// `parents` may be null: then each vertex but the source must have an edge from any vertex one level nearer.
Finding verify_bfs(const graph::GraphWords& graph, int64_t source, const int32_t* levels, const int64_t* parents) {
  Findings found;
  if (parents != nullptr)
    check_vertices(graph.num_vertices, source, levels, parents, found);
  else
    check_levels(graph.num_vertices, source, levels, found);
  if (found.any()) return found.finding();  // what follows indexes by levels and parents, and counts on them
  with_lists_of_any_kind(graph, [&](const auto& lists) { check_edges(lists, levels, parents, found); });
  return found.finding();
}

}  // namespace

const Binding graph_bfs([](nb::module_& m) {
  m.attr("BFS_RULES") = named<BfsRule>({{"source", BfsRule::kSource},
                                        {"reached", BfsRule::kReached},
                                        {"tree_level", BfsRule::kTreeLevel},
                                        {"graph", BfsRule::kGraph},
                                        {"closed", BfsRule::kClosed},
                                        {"edge_level", BfsRule::kEdgeLevel},
                                        {"tree_edge", BfsRule::kTreeEdge}});
  m.attr("STEP_RECORDS") = graph::kStepRecords;
  m.attr("NO_VERTEX") = int64_t{graph::FrontierControl::kNone};
  m.attr("PAGE_ELEMENTS") = int64_t{memory::kPageElements};
  m.def(
      "draw_below",
      [](uint64_t bound, int64_t count, uint64_t seed) {
        std::vector<uint64_t> drawn;
        for (int64_t i = 0; i < count; ++i) drawn.push_back(Philox{seed}.below(bound, i));
        return drawn;
      },
      nb::arg("bound"), nb::arg("count"), nb::arg("seed"), "Numbers below a bound, drawn by Philox: sources of searches.");
  m.def(
      "bfs_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::BfsState<uint32_t> none({}, num_vertices, num_edges);
        return scratch_layout(none.scratch, none.frontier);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"));
  def_loop(m, "bfs", bfs, nb::arg("id_bytes"));
  def_native(m, "verify_bfs", verify_bfs, nb::arg("graph"), nb::arg("source"), nb::arg("levels"), nb::arg("parents"));
});

}  // namespace hinterland::native
