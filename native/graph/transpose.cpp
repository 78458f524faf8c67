// Lists of in-neighbours of some vertices at a time, so that lists that lie on storage are turned round within a budget.
#include "graph/bind_views.hpp"
#include "graph/entries.hpp"

namespace hinterland::native {

namespace {

// f(graph) with plain lists, and weights as words of `weight_bytes` bytes; 0: none.
template <class F>
void with_words(const graph::GraphWords& words, int64_t weight_bytes, const F& f) {
  const auto with = [&]<class Weight>(Weight) { f(graph::Csr<int64_t, Weight, AnySources>(words)); };
  switch (weight_bytes) {
    case 0: return with(graph::NoWeight{});
    case 1: return with(uint8_t{});
    case 2: return with(uint16_t{});
    case 4: return with(uint32_t{});
    default: return with(uint64_t{});
  }
}

// counts[v] grows by how often lists name v. Returns the first position among the edges that names no vertex, or -1.
int64_t count_listed(const graph::GraphWords& words, int64_t* counts) {
  int64_t bad = kNone;
  with_words(words, 0, [&](const auto& graph) {
    for_each_vertex(graph, [&](int64_t u) {
      for_each_entry(graph, u, [&](int64_t i, int64_t v) {
        if (graph.has(v))
          atomic_add(counts[v], int64_t{1});
        else
          atomic_min(bad, i);
      });
    });
  });
  return none_is_minus_one(bad);
}

// The in-neighbours of vertices [first, last), and the weights of their edges, each list in no particular order: that of v from
// offsets[v] - offsets[first] on. `taken`, zero at first, counts those of each vertex. What has come to the lists since their
// entries were counted is left out.
void list_in_neighbors(const graph::GraphWords& words, int64_t weight_bytes, int64_t first, int64_t last,
                       const int64_t* offsets, int64_t* taken, void* neighbors, void* weights) {
  with_words(words, weight_bytes, [&]<class Graph>(const Graph& graph) {
    for_each_vertex(graph, [&](int64_t u) {
      for_each_entry(graph, u, [&](int64_t i, int64_t v) {
        if (v < first || v >= last) return;
        const int64_t at = offsets[v] + atomic_add(taken[v - first], int64_t{1});
        if (at >= offsets[v + 1]) return;
        if (words.edge_bytes == 8)
          static_cast<int64_t*>(neighbors)[at - offsets[first]] = u;
        else
          static_cast<int32_t*>(neighbors)[at - offsets[first]] = static_cast<int32_t>(u);
        if constexpr (Graph::kWeighted)
          static_cast<typename Graph::Weight*>(weights)[at - offsets[first]] = graph.weights.read_alone(i);
      });
    });
  });
}

// What position i of the list of u names.
int64_t entry_of(const graph::GraphWords& words, int64_t u, int64_t i) {
  int64_t found = -1;
  with_lists_of_any_kind(words, [&](const auto& graph) {
    for_each_entry(graph, u, [&](int64_t at, int64_t v) {
      if (at == i) found = v;
    });
  });
  return found;
}

}  // namespace

const Binding graph_transpose([](nanobind::module_& m) {
  def_native(m, "count_listed", count_listed, nanobind::arg("graph"), nanobind::arg("counts"));
  def_native(m, "list_in_neighbors", list_in_neighbors);
  def_native(m, "entry_of", entry_of, nanobind::arg("graph"), nanobind::arg("vertex"), nanobind::arg("position"));
});

}  // namespace hinterland::native
