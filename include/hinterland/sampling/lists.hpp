// A vertex's list as samplers see it: its i-th neighbour, whatever form the list has, for any lane on its own. visit.hpp reads
// whole lists; a sampler reads few neighbours of many lists, and each costs one request.
#pragma once

#include "hinterland/graph/visit_packed.hpp"

namespace hinterland::sampling {

// No vertex, seed, walk or pair: in control blocks, whose others get the smallest there is.
inline constexpr int64_t kNone = graph::FrontierControl::kNone;

struct ListPlace {
  int64_t vertex, begin, degree;
};

template <class Edge, class Weight>
HINTERLAND_FN int64_t neighbor_at(const graph::Csr<Edge, Weight>& graph, const ListPlace& list, int64_t i) {
  return graph.edges.read(list.begin + i);
}

// Three fields of the list's Elias-Fano block (compress.hpp): its directory entry, its high bits, one neighbour's low bits. -1
// if the list does not lie within its bytes.
template <class Edge, class Weight>
HINTERLAND_FN int64_t neighbor_at(const graph::PackedCsr<Edge, Weight>& graph, const ListPlace& list, int64_t i) {
  const graph::PackedBounds bytes(graph, list.vertex, true);
  const graph::PackedShape shape(graph.num_vertices, list.degree);
  if (8 * bytes.begin + shape.directory_bits() > 8 * bytes.end) return -1;
  const graph::PackedBlock block(graph.bits, 8 * bytes.begin, shape, i / graph::kPackedBlock);
  if (block.low_bits > shape.vertex_bits || block.end() > 8 * bytes.end) return -1;
  return block.neighbor(graph.bits, static_cast<int>(i % graph::kPackedBlock));
}

// Weights of the types that paths know, as doubles: what a sampler does with one is a comparison or a division.
class SampleWeights {
 public:
  enum Kind : int64_t { kNone = -1, kUint8, kInt32, kInt64, kFloat32, kFloat64 };

  HINTERLAND_FN SampleWeights(const graph::GraphWords& words, int64_t kind) : words_(words), kind_(kind) {}

  HINTERLAND_FN bool any() const { return kind_ != kNone; }
  HINTERLAND_FN double read(int64_t edge) const {
    switch (kind_) {
      case kUint8: return as<uint8_t>(edge);
      case kInt32: return as<int32_t>(edge);
      case kInt64: return as<int64_t>(edge);
      case kFloat32: return as<float>(edge);
      case kFloat64: return as<double>(edge);
      default: return 1.0;
    }
  }

 private:
  template <class T>
  HINTERLAND_FN double as(int64_t edge) const {
    const int32_t* const slots = words_.hot_weights == nullptr ? nullptr : words_.slots;
    return static_cast<double>(
        graph::TieredSource<T>{static_cast<const T*>(words_.weights), static_cast<const T*>(words_.hot_weights), slots}.read(
            edge));
  }

  const graph::GraphWords& words_;
  int64_t kind_;
};

}  // namespace hinterland::sampling
