#include "graph/generate.hpp"

#include "core/parallel.hpp"

namespace hinterland::native {

EdgeSource generated_edges(GeneratorKind kind, int64_t edges, const graph::GraphShape& shape) {
  switch (kind) {
    case GeneratorKind::kKronecker: return {GeneratedEdges<graph::Kronecker>{graph::Kronecker(shape), edges}};
    case GeneratorKind::kUniform: return {GeneratedEdges<graph::Uniform>{graph::Uniform(shape), edges}};
    default: return {GeneratedEdges<graph::Grid>{graph::Grid(shape), edges}};
  }
}

namespace {

template <class Weight, class Edges>
void fill_weights(const Edges& edges, const int64_t* names, uint64_t seed, void* weights) {
  constexpr int64_t kPiece = 1 << 14;  // edges that a thread takes at a time: chosen, not measured
  const graph::EdgeWeight<Weight> weight(seed);
  Weight* const out = static_cast<Weight*>(weights);
  const auto name = [&](int64_t v) { return names == nullptr || v < 0 || v >= edges.vertices ? v : names[v]; };
  parallel_for(
      ceil_div(edges.count(), kPiece),
      [&](int64_t piece) {
        edges.walk(piece * kPiece, min_of((piece + 1) * kPiece, edges.count()),
                   [&](int64_t i, graph::Edge edge) { out[i] = weight(name(edge.from), name(edge.to)); });
      },
      1);
}

}  // namespace

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
  if (neighbors.bytes == 4) {
    fill(CsrEdges<int32_t>{indptr, static_cast<const int32_t*>(neighbors.data), vertices, edges});
  } else {
    fill(CsrEdges<int64_t>{indptr, static_cast<const int64_t*>(neighbors.data), vertices, edges});
  }
}

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

void list_permutation(uint64_t key, int64_t size, int64_t first, int64_t count, int64_t* to) {
  const graph::Permutation permutation(key, size);
  for (int64_t i = 0; i < count; ++i) to[i] = permutation(first + i);
}

}  // namespace hinterland::native
