// From the words that Python fills in to a graph type of include/hinterland/graph: the CPU's counterpart of the instances that
// Python names when it launches a kernel.
#pragma once

#include "graph/stored.hpp"
#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::native {

// Through what the CPU reads graphs: arrays in its own memory, with what is read counted or not; or StoredSources.
#if defined(HINTERLAND_SOURCES)  // for a sanitizer one kind, which is a third less to compile; it does not see the other
using Sources = memory::HINTERLAND_SOURCES;
using MeteredSources = Sources;
#else
using Sources = memory::Unmetered;
using MeteredSources = memory::Metered;
#endif

inline bool is_stored(const graph::GraphWords& words) {
  return words.edges.store != nullptr || words.packed.store != nullptr || words.weights.store != nullptr;
}

// f(graph) with the type that the words describe, and weights of the type Weight.
template <class Sources, class Weight, class F>
void with_lists(const graph::GraphWords& words, const F& f) {
  using graph::Csr, graph::PackedCsr;
  const bool wide = words.edge_bytes == 8;
  if (words.packed.home != nullptr)
    return wide ? f(PackedCsr<int64_t, Weight, Sources>(words)) : f(PackedCsr<int32_t, Weight, Sources>(words));
  wide ? f(Csr<int64_t, Weight, Sources>(words)) : f(Csr<int32_t, Weight, Sources>(words));
}

// f(graph, incoming) with both in the type that the words describe; incoming is null where `in` is.
template <class Sources, class F>
void with_graph_of(const graph::GraphWords& out, const graph::GraphWords* in, const F& f) {
  with_lists<Sources, graph::NoWeight>(out, [&]<class Graph>(const Graph& graph) {
    if (in == nullptr) return f(graph, static_cast<const Graph*>(nullptr));
    const Graph incoming(*in);
    f(graph, &incoming);
  });
}

template <class F>
void with_graph(const graph::GraphWords& out, const graph::GraphWords* in, const F& f) {
  if (is_stored(out) || (in != nullptr && is_stored(*in))) return with_graph_of<StoredSources>(out, in, f);
  out.metered != 0 ? with_graph_of<MeteredSources>(out, in, f) : with_graph_of<Sources>(out, in, f);
}

// f(graph) in the form that the words describe, for those who count nothing.
template <class Weight = graph::NoWeight, class F>
void with_any_lists(const graph::GraphWords& words, const F& f) {
  is_stored(words) ? with_lists<StoredSources, Weight>(words, f) : with_lists<Sources, Weight>(words, f);
}

// The same with plain lists.
template <class Weight, class F>
void with_plain_lists(const graph::GraphWords& words, const F& f) {
  const auto with = [&]<class Family>(Family) {
    words.edge_bytes == 8 ? f(graph::Csr<int64_t, Weight, Family>(words)) : f(graph::Csr<int32_t, Weight, Family>(words));
  };
  is_stored(words) ? with(StoredSources{}) : with(Sources{});
}

// How a weight is stored: its bytes, and whether it is unsigned, signed or a float (src/hinterland/graph/arrays.py).
struct WeightKind {
  int64_t bytes, order;
};

// f(Weight{}) with the type that kind describes.
template <class F>
void with_weight(WeightKind kind, const F& f) {
  if (kind.order == 0) return f(uint8_t{});
  if (kind.order == 1) return kind.bytes == 8 ? f(int64_t{}) : f(int32_t{});
  kind.bytes == 8 ? f(double{}) : f(float{});
}

// f(graph) with the type that words and kind describe.
template <class F>
void with_weighted_graph(const graph::GraphWords& words, WeightKind kind, const F& f) {
  with_weight(kind, [&]<class Weight>(Weight) {
    if (is_stored(words)) return with_lists<StoredSources, Weight>(words, f);
    words.metered != 0 ? with_lists<MeteredSources, Weight>(words, f) : with_lists<Sources, Weight>(words, f);
  });
}

}  // namespace hinterland::native
