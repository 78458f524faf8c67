#include <nanobind/stl/array.h>

#include <array>

#include "bindings.hpp"
#include "graph/bind_arrays.hpp"
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
  def_native(m, "generate_weights", generate_weights);

  // What the tests look at.
  def_native(m, "list_edges", list_edges);
  def_native(m, "list_permutation", list_permutation);
  m.def("philox", [](uint64_t key, uint64_t low, uint64_t high) {
    const Philox::Block block = Philox{key}(low, high);
    return std::array<uint32_t, 4>{block.word[0], block.word[1], block.word[2], block.word[3]};
  });
}

}  // namespace hinterland::native
