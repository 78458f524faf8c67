// A graph as a traversal sees it: its arrays, wherever they lie, and what of them is kept on the GPU.
#pragma once

#include "hinterland/graph/lists.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::graph {

// Where lists begin, and the last one ends: int64, or uint32, which halves what they take of a GPU's memory where the last is
// below 2^32. All lists of a graph have offsets of one width, so the branch goes one way for a whole warp.
struct Offsets {
  const void* at;
  int64_t bytes;  // of each: 8 or 4
};

// What Python fills in: addresses, counts and 0 for what is not there (src/hinterland/graph/device_graph.py).
struct GraphWords {
  int64_t num_vertices, num_edges;
  int64_t edge_bytes;  // of a neighbour: 4 or 8
  Offsets offsets;
  memory::ArrayWords edges, weights;
  // The adjacency prefix, a cache of the first neighbours of each vertex: neighbour j of v is adjacency_prefix[j * num_vertices
  // + v], or -1 if there is none.
  const void* adjacency_prefix;
  int64_t prefix_length;
  int64_t num_isolated;  // vertices without neighbours, 0 if not counted
  // Compressed lists (graph/compress.hpp) in place of `edges`.
  memory::ArrayWords packed;
  Offsets packed_offsets;
  int64_t packed_end;  // no list ends after this byte of `packed`
  int64_t metered;     // 1: a CPU counts what it reads; a GPU does where its kernel's graph is Metered
};

// Offsets as kernels read them. They are small beside edges, and not metered.
template <class Sources>
class OffsetSource {
 public:
  HINTERLAND_FN OffsetSource(const Offsets& words, int64_t count) : words_(words), count_(count) {}

  HINTERLAND_FN bool operator==(const OffsetSource& other) const { return words_.at == other.words_.at; }
  HINTERLAND_FN int64_t read_alone(int64_t at) const {
    return is_narrow() ? int64_t{source<uint32_t>().read_alone(at)} : source<int64_t>().read_alone(at);
  }

  // Where the list of a vertex lies by its offsets, which nobody has checked: of each lane's, if it is active, and all lanes
  // call it together; or of one lane's.
  HINTERLAND_FN Piece list(int64_t vertex, bool active) const {
    const int64_t at[] = {active ? vertex : memory::kNowhere, active ? vertex + 1 : memory::kNowhere};
    if (is_narrow()) return found<uint32_t>(at);
    return found<int64_t>(at);
  }
#if !HINTERLAND_ON_GPU
  void prefetch(int64_t vertex) const { __builtin_prefetch(static_cast<const char*>(words_.at) + vertex * words_.bytes); }
#endif
  HINTERLAND_FN Piece list_alone(int64_t vertex) const { return {read_alone(vertex), read_alone(vertex + 1)}; }

 private:
  // The low half of `bytes` says it as well, and takes one register, not two.
  HINTERLAND_FN bool is_narrow() const { return static_cast<int32_t>(words_.bytes) == 4; }
  template <class T>
  HINTERLAND_FN Piece found(const int64_t (&at)[2]) const {
    T ends[2];
    source<T>().read(at, ends);
    return {static_cast<int64_t>(ends[0]), static_cast<int64_t>(ends[1])};
  }
  template <class T>
  HINTERLAND_FN auto source() const {
    return typename Sources::template Whole<T>(words_.at, count_);
  }

  Offsets words_;
  int64_t count_;
};

// In place of a weight type: no weights are read.
struct NoWeight {};

// What lists of every form have: `Sources` is a family of memory/source.hpp, through which all that is large is read.
template <class EdgeType, class WeightType, class Sources>
struct ListsOf {
  using Edge = EdgeType;
  using Weight = WeightType;
  using Family = Sources;
  using Meter = typename Sources::Meter;
  template <class T>
  using Large = typename Sources::template Large<T>;
  static constexpr bool kWeighted = !stdlib::is_same_v<Weight, NoWeight>;

  int64_t num_vertices, num_edges;
  OffsetSource<Sources> offsets;
  Large<Weight> weights;
  memory::Pointer<Edge> adjacency_prefix;  // which are kept where they are read
  int64_t prefix_length;
  int64_t num_isolated;

  HINTERLAND_FN ListsOf(const GraphWords& words, const memory::ArrayWords& weights)
      : num_vertices(words.num_vertices),
        num_edges(words.num_edges),
        offsets(words.offsets, words.num_vertices + 1),
        weights(weights, words.num_edges),
        adjacency_prefix(words.adjacency_prefix, words.prefix_length * words.num_vertices),
        prefix_length(words.prefix_length),
        num_isolated(words.num_isolated) {}

  HINTERLAND_FN bool has(int64_t vertex) const { return static_cast<uint64_t>(vertex) < static_cast<uint64_t>(num_vertices); }
  HINTERLAND_FN int64_t prefix_neighbor(int64_t vertex, int64_t j) const {
    return adjacency_prefix.read_alone(j * num_vertices + vertex);
  }

  // How long the list of a vertex is by its offsets, which nobody has checked: any number, for what is only counted.
  HINTERLAND_FN int64_t degree(int64_t vertex) const {
    const Piece list = offsets.list_alone(vertex);
    return static_cast<int64_t>(static_cast<uint64_t>(list.end) - static_cast<uint64_t>(list.begin));
  }
};

// Blocks of 512 threads that a multiprocessor is to have room for: one where reads may have to wait, which takes registers.
template <class Graph>
inline constexpr int kBlocks = requires { Graph::Family::kWaits; } ? 1 : 2;

// Plain lists.
template <class EdgeType, class WeightType = NoWeight, class Sources = memory::Unmetered>
struct Csr : ListsOf<EdgeType, WeightType, Sources> {
  typename Sources::template Large<EdgeType> edges;

  HINTERLAND_FN explicit Csr(const GraphWords& words)
      : ListsOf<EdgeType, WeightType, Sources>(words, words.weights), edges(words.edges, words.num_edges) {}
};

}  // namespace hinterland::graph
