// A graph as a traversal sees it: its arrays, wherever they lie, and what of them is kept on the GPU.
#pragma once

#include "hinterland/memory/source.hpp"

namespace hinterland::graph {

// Where lists begin, and the last one ends: int64, or uint32, which halves what they take of a GPU's memory where the last is below
// 2^32. All lists of a graph have offsets of one width, so the branch goes one way for a whole warp.
struct Offsets {
  const void* at;
  int64_t bytes;  // of each: 8 or 4

  HINTERLAND_FN int64_t operator[](int64_t i) const {
    // Half of `bytes` says it as well, and takes one register.
    return static_cast<int32_t>(bytes) == 4 ? int64_t{static_cast<const uint32_t*>(at)[i]} : static_cast<const int64_t*>(at)[i];
  }
};

// What Python fills in: addresses, counts and 0 for what is not there (src/hinterland/graph/view.py).
struct GraphWords {
  int64_t num_vertices, num_edges;
  int64_t edge_bytes;  // of a neighbour: 4 or 8
  Offsets offsets;
  const void* edges;
  const void* weights;
  // Pages of the edge array that are kept on the GPU: the slot of each page, or -1, and the pages' content.
  const int32_t* slots;
  const void* hot_edges;
  const void* hot_weights;
  // The first neighbours of each vertex: neighbour j of v is heads[j * num_vertices + v], or -1 where there is none.
  const void* heads;
  int64_t heads_per_vertex;
  int64_t num_isolated;  // vertices without neighbours, 0 if not counted
  // Compressed lists (graph/compress.hpp) in place of `edges`.
  const void* packed;
  Offsets packed_offsets;
  int64_t packed_end;  // no list ends after this byte of `packed`
};

inline constexpr int kPageShift = 10;
inline constexpr int64_t kPageEdges = int64_t{1} << kPageShift;

// One number for each edge, some pages of them kept on the GPU.
template <class T>
struct TieredSource {
  using value_type = T;
  using Span = typename memory::PointerSource<T>::Span;

  const T* home;
  const T* hot;
  const int32_t* slots;  // null where no page is kept

  HINTERLAND_FN bool is_hot(int64_t i) const { return slots != nullptr && slots[i >> kPageShift] >= 0; }
  HINTERLAND_FN T read(int64_t i) const {
    if (slots != nullptr) {
      const int64_t slot = slots[i >> kPageShift];
      if (slot >= 0) return hot[slot << kPageShift | (i & (kPageEdges - 1))];
    }
    return home[i];
  }
  HINTERLAND_FN Span span(int64_t begin, int64_t end) const { return {home, begin, end}; }
};

// In place of a weight type: no weights are read.
struct NoWeight {};

// How long the list of `vertex` is by its offsets, which nobody has checked: any number, for what is only counted.
HINTERLAND_FN int64_t unchecked_degree(const Offsets& offsets, int64_t vertex) {
  return static_cast<int64_t>(static_cast<uint64_t>(offsets[vertex + 1]) - static_cast<uint64_t>(offsets[vertex]));
}

template <class EdgeType, class WeightType = NoWeight>
struct Csr {
  using Edge = EdgeType;
  using Weight = WeightType;
  static constexpr bool kWeighted = !stdlib::is_same_v<Weight, NoWeight>;

  int64_t num_vertices, num_edges;
  Offsets offsets;
  TieredSource<Edge> edges;
  TieredSource<Weight> weights;
  const Edge* heads;
  int64_t heads_per_vertex;
  int64_t num_isolated;

  HINTERLAND_FN explicit Csr(const GraphWords& words)
      : num_vertices(words.num_vertices),
        num_edges(words.num_edges),
        offsets(words.offsets),
        edges{static_cast<const Edge*>(words.edges), static_cast<const Edge*>(words.hot_edges), words.slots},
        weights{static_cast<const Weight*>(words.weights), static_cast<const Weight*>(words.hot_weights),
                words.hot_weights == nullptr ? nullptr : words.slots},
        heads(static_cast<const Edge*>(words.heads)),
        heads_per_vertex(words.heads_per_vertex),
        num_isolated(words.num_isolated) {}

  HINTERLAND_FN bool has(int64_t vertex) const { return static_cast<uint64_t>(vertex) < static_cast<uint64_t>(num_vertices); }
  HINTERLAND_FN int64_t degree(int64_t vertex) const { return unchecked_degree(offsets, vertex); }
};

}  // namespace hinterland::graph
