// From the words that Python fills in to a graph type of include/hinterland/graph: the CPU's counterpart of the instances that
// Python names when it launches a kernel.
//
// An algorithm has instances for what is common and must be fast: lists in memory whose vertices take 32 bits, and of plain
// ones those that count what is read. Another for each form of lists reads whatever else there is (any_array.hpp). One for each
// kind of lists took minutes to compile.
#pragma once

#include "graph/any_array.hpp"
#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/visit_packed.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::native {

inline bool is_stored(const graph::GraphWords& words) {
  return words.edges.store != nullptr || words.packed.store != nullptr || words.weights.store != nullptr;
}

// In memory, of vertices that take 32 bits.
inline bool is_near_and_narrow(const graph::GraphWords& words) { return !is_stored(words) && words.edge_bytes == 4; }

inline bool is_packed(const graph::GraphWords& words) { return words.packed.home != nullptr; }

// f(graph) with weights of the type Weight: that they have, or an integer that takes more bytes.
template <class Weight = graph::NoWeight, class F>
void with_lists_of_any_kind(const graph::GraphWords& words, const F& f) {
  if (is_packed(words)) return f(graph::PackedCsr<int64_t, Weight, AnySources>(words));
  f(graph::Csr<int64_t, Weight, AnySources>(words));
}

template <class Weight = graph::NoWeight>
using CountedCsr = graph::Csr<int32_t, Weight, memory::Metered>;

template <class Weight = graph::NoWeight, class F>
void with_near_lists(const graph::GraphWords& words, const F& f) {
  if (is_packed(words)) return f(graph::PackedCsr<int32_t, Weight>(words));
  f(graph::Csr<int32_t, Weight>(words));
}

// f(graph) for those who count nothing.
template <class F>
void with_lists(const graph::GraphWords& words, const F& f) {
  is_near_and_narrow(words) ? with_near_lists(words, f) : with_lists_of_any_kind(words, f);
}

// f(graph, incoming) with both in the type that the words describe; incoming is null where `in` is. What is read is counted
// where the words say so. id_bytes (4 or 8): of what is computed for a vertex.
template <class F>
void with_graph(const graph::GraphWords& out, const graph::GraphWords* in, int id_bytes, const F& f) {
  const auto with_both = [&]<class Graph>(const Graph& graph) {
    if (in == nullptr) return f(graph, static_cast<const Graph*>(nullptr));
    const Graph incoming(*in);
    f(graph, &incoming);
  };
  const bool is_near = is_near_and_narrow(out) && (in == nullptr || is_near_and_narrow(*in));
  if (!is_near || id_bytes == 8 || (out.metered != 0 && is_packed(out))) return with_lists_of_any_kind(out, with_both);
  out.metered == 0 ? with_near_lists(out, with_both) : with_both(CountedCsr<>(out));
}

template <class F>
void with_graph(const graph::GraphWords& out, const graph::GraphWords* in, const F& f) {
  with_graph(out, in, 4, f);
}

// How a weight is stored: its bytes, and whether it is unsigned, signed or a float (src/hinterland/graph/arrays.py).
struct WeightKind {
  int64_t bytes, order;
};

// f(Weight{}) with the type that is computed with: of uint8 that is int32.
template <class F>
void with_weight(WeightKind kind, const F& f) {
  if (kind.order == 2) return kind.bytes == 8 ? f(double{}) : f(float{});
  kind.bytes == 8 ? f(int64_t{}) : f(int32_t{});
}

// f(graph) with the type that words and kind describe.
template <class F>
void with_weighted_graph(const graph::GraphWords& words, WeightKind kind, const F& f) {
  const bool is_near = is_near_and_narrow(words), counts = words.metered != 0;
  if (is_near && !counts && kind.order == 0) return with_near_lists<uint8_t>(words, f);
  with_weight(kind, [&]<class Weight>(Weight) {
    if constexpr (sizeof(Weight) == 4)
      if (is_near && counts && !is_packed(words) && kind.bytes == 4) return f(CountedCsr<Weight>(words));
    is_near && !counts ? with_near_lists<Weight>(words, f) : with_lists_of_any_kind<Weight>(words, f);
  });
}

}  // namespace hinterland::native
