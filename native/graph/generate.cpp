// Generated edges and weights on the CPU.
#include <nanobind/stl/array.h>

#include <array>

#include "core/pool.hpp"
#include "core/thresholds.hpp"
#include "graph/bind_arrays.hpp"
#include "graph/row_loops.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::GraphShape, seed, vertices, scale, columns, permuted, share);
HINTERLAND_STRUCT(graph::CountRowsParams, shape, edges, mirror, degrees);
HINTERLAND_STRUCT(graph::RowKeysParams, shape, edges, mirror, first_row, end_row, bits, cursor, keys);
HINTERLAND_STRUCT(graph::KeyWeightsParams, keys, count, bits, seed, weights);

namespace {

enum class GeneratorKind : int { kKronecker = 0, kUniform = 1, kGrid = 2, kRing = 3, kWeb = 4 };

EdgeSource generated_edges(GeneratorKind kind, int64_t edges, uint64_t seed, int64_t vertices, int64_t scale, int64_t columns,
                           bool permuted, int64_t share) {
  const graph::GraphShape shape{seed, vertices, scale, columns, permuted, share};
  switch (kind) {
    case GeneratorKind::kKronecker: return {GeneratedEdges<graph::Kronecker>{graph::Kronecker(shape), edges}};
    case GeneratorKind::kUniform: return {GeneratedEdges<graph::Uniform>{graph::Uniform(shape), edges}};
    case GeneratorKind::kGrid: return {GeneratedEdges<graph::Grid>{graph::Grid(shape), edges}};
    case GeneratorKind::kRing: return {GeneratedEdges<graph::VertexRing>{graph::VertexRing(shape), edges}};
    default: return {GeneratedEdges<graph::Web>{graph::Web(shape), edges}};
  }
}

template <class Weight, class Edges>
void fill_weights(const Edges& edges, const int64_t* names, uint64_t seed, void* weights) {
  const graph::EdgeWeight<Weight> weight(seed);
  Weight* const out = static_cast<Weight*>(weights);
  const auto name = [&](int64_t v) { return names == nullptr || v < 0 || v >= edges.vertices ? v : names[v]; };
  parallel_for(
      ceil_div(edges.count(), kEdgesWeighed),
      [&](int64_t piece) {
        edges.walk(piece * kEdgesWeighed, min_of((piece + 1) * kEdgesWeighed, edges.count()),
                   [&](int64_t i, graph::Edge edge) { out[i] = weight(name(edge.from), name(edge.to)); });
      },
      1);
}

// weights[i], uint8, int32 or float32, of the edge that entry i of the rows stands for. Vertex v counts as names[v], or as v
// where names is null.
void generate_weights(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges, const int64_t* names,
                      uint64_t seed, WeightArray weights) {
  const auto fill = [&](const auto& edges) {
    if (weights.order == WeightOrder::kFloat) {
      fill_weights<float>(edges, names, seed, weights.data);
    } else if (weights.bytes == 1) {
      fill_weights<uint8_t>(edges, names, seed, weights.data);
    } else {
      fill_weights<int32_t>(edges, names, seed, weights.data);
    }
  };
  with_neighbors(neighbors, [&]<class Id>(Id* ids) { fill(CsrEdges<Id>{indptr, ids, vertices, edges}); });
}

// Edges [begin, end) of a source as two columns.
void list_edges(const EdgeSource& source, int64_t begin, int64_t end, int64_t* from, int64_t* to) {
  std::visit(
      [&](const auto& edges) {
        edges.walk(begin, end, [&](int64_t i, graph::Edge edge) {
          from[i - begin] = edge.from;
          to[i - begin] = edge.to;
        });
      },
      source.edges);
}

// to[i] = the Permutation of [0, size) with this key at `first` + i.
void list_permutation(uint64_t key, int64_t size, int64_t first, int64_t count, int64_t* to) {
  const graph::Permutation permutation(key, size);
  for (int64_t i = 0; i < count; ++i) to[i] = permutation(first + i);
}

}  // namespace

const Binding graph_generate([](nb::module_& m) {
  def_native(m, "generated_edges", generated_edges);
  def_native(m, "generate_weights", generate_weights);

  // What the tests look at.
  def_native(m, "list_edges", list_edges);
  def_native(m, "list_permutation", list_permutation);
  m.def("philox", [](uint64_t key, uint64_t low, uint64_t high) {
    const Philox::Block block = Philox{key}(low, high);
    return std::array<uint32_t, 4>{block.word[0], block.word[1], block.word[2], block.word[3]};
  });
});

}  // namespace hinterland::native
