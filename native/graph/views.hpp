// From the words that Python fills in to a graph type of include/hinterland/graph: the CPU's counterpart of the instances that
// Python names when it launches a kernel.
#pragma once

#include <stdexcept>

#include "hinterland/graph/adjacency.hpp"

namespace hinterland::native {

// f(graph, incoming) with both in the type that the words describe; incoming is null where `in` is.
template <class F>
void with_graph(const GraphWords& out, const GraphWords* in, const F& f) {
  const auto call = [&](auto graph) {
    if (in == nullptr) return f(graph, static_cast<const decltype(graph)*>(nullptr));
    const decltype(graph) incoming(*in);
    f(graph, &incoming);
  };
  if (out.edge_bytes == 8) return call(Csr<int64_t>(out));
  call(Csr<int32_t>(out));
}

// How a weight is stored: its bytes, and whether it is unsigned, signed or a float (src/hinterland/graph/arrays.py).
struct WeightKind {
  int64_t bytes, order;
};

// f(graph) with the type that words and kind describe.
template <class F>
void with_weighted_graph(const GraphWords& words, WeightKind kind, const F& f) {
  const auto with_weight = [&](auto weight) {
    using Weight = decltype(weight);
    if (words.edge_bytes == 8) return f(Csr<int64_t, Weight>(words));
    f(Csr<int32_t, Weight>(words));
  };
  if (kind.order == 0) return with_weight(uint8_t{});
  if (kind.order == 1) return kind.bytes == 8 ? with_weight(int64_t{}) : with_weight(int32_t{});
  kind.bytes == 8 ? with_weight(double{}) : with_weight(float{});
}

}  // namespace hinterland::native
