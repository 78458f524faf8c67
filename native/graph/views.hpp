// From the words that Python fills in to a graph type of include/hinterland/graph: the CPU's counterpart of the instances that
// Python names when it launches a kernel.
#pragma once

#include <stdexcept>

#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::native {

// f(graph, incoming) with both in the type that the words describe; incoming is null where `in` is.
template <class F>
void with_graph(const graph::GraphWords& out, const graph::GraphWords* in, const F& f) {
  const auto call = [&](auto graph) {
    if (in == nullptr) return f(graph, static_cast<const decltype(graph)*>(nullptr));
    const decltype(graph) incoming(*in);
    f(graph, &incoming);
  };
  if (out.packed != nullptr)
    return out.edge_bytes == 8 ? call(graph::PackedCsr<int64_t>(out)) : call(graph::PackedCsr<int32_t>(out));
  if (out.edge_bytes == 8) return call(graph::Csr<int64_t>(out));
  call(graph::Csr<int32_t>(out));
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
  with_weight(kind, [&](auto weight) {
    using Weight = decltype(weight);
    if (words.packed != nullptr)
      return words.edge_bytes == 8 ? f(graph::PackedCsr<int64_t, Weight>(words)) : f(graph::PackedCsr<int32_t, Weight>(words));
    words.edge_bytes == 8 ? f(graph::Csr<int64_t, Weight>(words)) : f(graph::Csr<int32_t, Weight>(words));
  });
}

}  // namespace hinterland::native
