// Edge sources: a stream of edges that can be walked as often as the builder likes, any range of it by any thread. A list of
// two columns, the rows of a CSR graph, runs of entries (edge_runs.hpp) and a generator's formula all are one, so no builder
// needs the edges as an array.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "graph/edge_runs.hpp"
#include "hinterland/graph/communities.hpp"
#include "hinterland/graph/csr.hpp"
#include "hinterland/graph/generate.hpp"

namespace hinterland::native {

// Each source has count() and walk(begin, end, visit), which calls visit(i, edge) for each i of [begin, end) in order.

template <class Id>
struct ListedEdges {
  const Id* from;
  const Id* to;
  int64_t edges;

  [[nodiscard]] int64_t count() const { return edges; }

  template <class Visit>
  void walk(int64_t begin, int64_t end, Visit&& visit) const {
    for (int64_t i = begin; i < end; ++i) visit(i, graph::Edge{static_cast<int64_t>(from[i]), static_cast<int64_t>(to[i])});
  }
};

template <class Id>
struct CsrEdges {
  const int64_t* indptr;
  const Id* indices;
  int64_t vertices, edges;

  [[nodiscard]] int64_t count() const { return edges; }

  // Every edge is in some row, whatever the offsets say.
  template <class Visit>
  void walk(int64_t begin, int64_t end, Visit&& visit) const {
    const int64_t last = vertices - 1;
    const auto end_of = [&](int64_t row) { return row < last ? indptr[row + 1] : edges; };
    int64_t row = std::clamp<int64_t>(std::upper_bound(indptr, indptr + vertices + 1, begin) - indptr - 1, 0, last);
    int64_t row_end = end_of(row);
    for (int64_t i = begin; i < end; ++i) {
      while (i >= row_end) row_end = end_of(++row);
      visit(i, graph::Edge{row, static_cast<int64_t>(indices[i])});
    }
  }
};

template <class Generator>
struct GeneratedEdges {
  Generator generator;
  int64_t edges;

  [[nodiscard]] int64_t count() const { return edges; }

  template <class Visit>
  void walk(int64_t begin, int64_t end, Visit&& visit) const {
    for (int64_t i = begin; i < end; ++i) visit(i, generator(i));
  }
};

struct EdgeSource {
  std::variant<ListedEdges<int32_t>, ListedEdges<int64_t>, CsrEdges<int32_t>, CsrEdges<int64_t>, RunEdges,
               GeneratedEdges<graph::Kronecker>, GeneratedEdges<graph::Uniform>, GeneratedEdges<graph::Grid>,
               GeneratedEdges<graph::VertexRing>, GeneratedEdges<graph::Web>, GeneratedEdges<graph::CommunityLists>>
      edges;
};

}  // namespace hinterland::native
