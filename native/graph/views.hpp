// From the words that Python fills in to a graph type of include/hinterland/graph: the CPU's counterpart of the instances that
// Python names when it launches a kernel.
#pragma once

#include <stdexcept>

#include "hinterland/graph/adjacency.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::native {

// f(graph, incoming) with both in the type that the words describe; incoming is null where `in` is.
template <class F>
void with_graph(const GraphWords& out, const GraphWords* in, const F& f) {
  const auto call = [&](auto graph) {
    if (in == nullptr) return f(graph, static_cast<const decltype(graph)*>(nullptr));
    const decltype(graph) incoming(*in);
    f(graph, &incoming);
  };
  if (out.packed != nullptr) return out.edge_bytes == 8 ? call(PackedCsr<int64_t>(out)) : call(PackedCsr<int32_t>(out));
  if (out.edge_bytes == 8) return call(Csr<int64_t>(out));
  call(Csr<int32_t>(out));
}

}  // namespace hinterland::native
