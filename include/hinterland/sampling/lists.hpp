// A vertex's list as samplers see it: its i-th neighbour, whatever form the list has. visit.hpp reads whole lists; a sampler
// reads few neighbours of many lists, and each costs one request.
#pragma once

#include "hinterland/graph/ahead.hpp"
#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::sampling {

// No vertex, seed, walk or pair: in control blocks, whose others get the smallest there is.
inline constexpr int64_t kNone = graph::FrontierControl::kNone;

struct ListPlace {
  int64_t vertex, begin, degree;
};

// Neighbour i of a list, for a lane that the others do not wait for: which neighbours it reads follows from those before.
template <class Edge, class Weight, class Sources>
HINTERLAND_FN int64_t neighbor_alone(const graph::Csr<Edge, Weight, Sources>& graph, const ListPlace& list, int64_t i) {
  return graph.edges.read_alone(list.begin + i);
}

// Three fields of the list's Elias-Fano block (compress.hpp): its directory entry, its high bits, one neighbour's low bits. -1
// if the list does not lie within its bytes.
template <class Edge, class Weight, class Sources>
HINTERLAND_FN int64_t neighbor_alone(const graph::PackedCsr<Edge, Weight, Sources>& graph, const ListPlace& list, int64_t i) {
  const auto bytes = graph::PackedBounds::alone(graph, list.vertex);
  const graph::PackedShape shape(graph.num_vertices, list.degree);
  if (8 * bytes.begin + shape.directory_bits() > 8 * bytes.end) return -1;
  const graph::BitReader bits{graph.words};
  const graph::PackedBlock block(bits, 8 * bytes.begin, shape, i / graph::kPackedBlock);
  if (block.low_bits > shape.vertex_bits || block.end() > 8 * bytes.end) return -1;
  return block.neighbor(bits, static_cast<int>(i % graph::kPackedBlock));
}

// Neighbours i[k] of lists list[k], or -1 where i[k] is -1. All lanes call it together.
template <class Edge, class Weight, class Sources, int kCount>
HINTERLAND_FN void read_neighbors(const graph::Csr<Edge, Weight, Sources>& graph, const ListPlace (&list)[kCount],
                                  const int64_t (&i)[kCount], int64_t (&neighbor)[kCount]) {
  memory::NoMeter nobody_asks;
  int64_t at[kCount];
  Edge found[kCount];
  for (int k = 0; k < kCount; ++k) at[k] = i[k] < 0 ? memory::kNowhere : list[k].begin + i[k];
  graph.edges.read(at, found, nobody_asks);
  for (int k = 0; k < kCount; ++k) neighbor[k] = i[k] < 0 ? -1 : static_cast<int64_t>(found[k]);
}

// A field tells where the next one is: each lane finds its own.
template <class Edge, class Weight, class Sources, int kCount>
HINTERLAND_FN void read_neighbors(const graph::PackedCsr<Edge, Weight, Sources>& graph, const ListPlace (&list)[kCount],
                                  const int64_t (&i)[kCount], int64_t (&neighbor)[kCount]) {
  for (int k = 0; k < kCount; ++k) neighbor[k] = i[k] < 0 ? -1 : neighbor_alone(graph, list[k], i[k]);
}

template <class Edge, class Weight, class Sources>
HINTERLAND_FN int64_t ask_for_place(const graph::Csr<Edge, Weight, Sources>& graph, const ListPlace& list, int64_t i) {
  return graph.edges.ask(list.begin + i, list.begin + i + 1);
}

// The entry of the directory, and where its block begins if all blocks are alike: nearly there, and what is missing is read
// later.
template <class Edge, class Weight, class Sources>
HINTERLAND_FN int64_t ask_for_place(const graph::PackedCsr<Edge, Weight, Sources>& graph, const ListPlace& list, int64_t i) {
  const auto bytes = graph::PackedBounds::alone(graph, list.vertex);
  const graph::PackedShape shape(graph.num_vertices, list.degree);
  const int64_t payloads = 8 * bytes.begin + shape.directory_bits(), block = i / graph::kPackedBlock;
  if (payloads > 8 * bytes.end) return 0;
  const int64_t entry = 8 * bytes.begin + block * shape.entry_bits();
  const int64_t payload = payloads + (8 * bytes.end - payloads) / shape.blocks * block;
  return graph.words.ask(entry / 32, entry / 32 + 1) + graph.words.ask(payload / 32, payload / 32 + 1);
}

// Has what is read of neighbour i read ahead (graph/ahead.hpp), if there is one; says how many reads that has begun.
template <class Graph>
HINTERLAND_FN int64_t ask_for_neighbor([[maybe_unused]] const Graph& graph, [[maybe_unused]] const ListPlace& list,
                                       [[maybe_unused]] int64_t i) {
  if constexpr (graph::kReadsAhead<Graph>)
    if (static_cast<uint64_t>(i) < static_cast<uint64_t>(list.degree)) return ask_for_place(graph, list, i);
  return 0;
}

struct SampleWeightKind {
  enum Kind : int64_t { kNone = -1, kUint8, kInt32, kInt64, kFloat32, kFloat64 };
};

// Weights of the types that paths know, as doubles: what a sampler does with one is a comparison or a division. A lane reads
// them
// alone: which ones follows from its draws.
template <class Sources>
class SampleWeights : SampleWeightKind {
 public:
  HINTERLAND_FN SampleWeights(const graph::GraphWords& words, int64_t kind) : words_(words), kind_(kind) {}

  HINTERLAND_FN bool any() const { return kind_ != kNone; }
  HINTERLAND_FN double read_alone(int64_t edge) const {
    double weight = 1.0;
    with_source([&](const auto& source) { weight = static_cast<double>(source.read_alone(edge)); });
    return weight;
  }

  // Has those of some edges read ahead, where Sources do.
  HINTERLAND_FN int64_t ask(const graph::Piece& part) const {
    int64_t begun = 0;
    with_source([&](const auto& source) { begun = source.ask(part.begin, part.end); });
    return begun;
  }

 private:
  // f(the array), if there are any.
  template <class F>
  HINTERLAND_FN void with_source(const F& f) const {
    switch (kind_) {
      case kUint8: return f(as<uint8_t>());
      case kInt32: return f(as<int32_t>());
      case kInt64: return f(as<int64_t>());
      case kFloat32: return f(as<float>());
      case kFloat64: return f(as<double>());
      default: return;
    }
  }
  template <class T>
  HINTERLAND_FN auto as() const {
    return typename Sources::template Large<T>(words_.weights, words_.num_edges);
  }

  const graph::GraphWords& words_;
  int64_t kind_;
};

}  // namespace hinterland::sampling
