#include <nanobind/stl/array.h>

#include <array>

#include "bindings.hpp"
#include "graph/generate.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::GraphShape, seed, vertices, scale, columns);
HINTERLAND_STRUCT(graph::CountRowsParams, shape, edges, degrees);
HINTERLAND_STRUCT(graph::RowKeysParams, shape, edges, first_row, end_row, bits, cursor, keys);
HINTERLAND_STRUCT(graph::KeyWeightsParams, keys, count, bits, seed, weights);

void bind_graph_generate(nb::module_& m) {
  m.def("generated_edges", [](int kind, int64_t edges, uint64_t seed, int64_t vertices, int64_t scale, int64_t columns) {
    return generated_edges(static_cast<GeneratorKind>(kind), edges, graph::GraphShape{seed, vertices, scale, columns});
  });
  m.def("generate_weights", [](uintptr_t indptr, int64_t vertices, uintptr_t neighbors, int neighbor_bytes, int64_t edges,
                               uintptr_t names, uint64_t seed, uintptr_t weights, int weight_bytes, int weight_order) {
    GilReleased released;
    generate_weights(reinterpret_cast<const int64_t*>(indptr), vertices,
                     NeighborArray{reinterpret_cast<void*>(neighbors), neighbor_bytes}, edges,
                     reinterpret_cast<const int64_t*>(names), seed,
                     WeightArray{reinterpret_cast<void*>(weights), weight_bytes, static_cast<WeightOrder>(weight_order)});
  });

  // What the tests look at.
  m.def("list_edges", [](const EdgeSource& source, int64_t begin, int64_t end, uintptr_t from, uintptr_t to) {
    GilReleased released;
    list_edges(source, begin, end, reinterpret_cast<int64_t*>(from), reinterpret_cast<int64_t*>(to));
  });
  m.def("list_permutation", [](uint64_t key, int64_t size, int64_t first, int64_t count, uintptr_t to) {
    GilReleased released;
    list_permutation(key, size, first, count, reinterpret_cast<int64_t*>(to));
  });
  m.def("philox", [](uint64_t key, uint64_t low, uint64_t high) {
    const Philox::Block block = Philox{key}(low, high);
    return std::array<uint32_t, 4>{block.word[0], block.word[1], block.word[2], block.word[3]};
  });
}

}  // namespace hinterland::native
