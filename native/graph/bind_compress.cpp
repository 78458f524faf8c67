#include <nanobind/stl/pair.h>

#include "bindings.hpp"
#include "graph/compress.hpp"
#include "graph/reorder.hpp"
#include "hinterland/graph/compress.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

template <class T>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

NeighborArray neighbors_at(uintptr_t address, int bytes) { return {at<void>(address), bytes}; }

PackedArrays packed_at(uintptr_t indptr, uintptr_t offsets, uintptr_t stream, int64_t stream_bytes, int64_t rows,
                       int64_t vertices, int64_t edges) {
  return {at<int64_t>(indptr), at<int64_t>(offsets), at<void>(stream), rows, vertices, edges, stream_bytes};
}

}  // namespace

void bind_graph_compress(nb::module_& m) {
  m.def("packed_bytes", &graph::packed_bytes);
  m.def("pack_offsets",
        [](uintptr_t indptr, int64_t rows, int64_t vertices, uintptr_t neighbors, int bytes, int64_t edges, uintptr_t offsets) {
          GilReleased released;
          return pack_offsets(at<int64_t>(indptr), rows, vertices, neighbors_at(neighbors, bytes), edges, at<int64_t>(offsets));
        });
  m.def("pack_rows", [](uintptr_t indptr, int64_t rows, int64_t vertices, uintptr_t neighbors, int bytes, int64_t edges,
                        uintptr_t offsets, uintptr_t stream) {
    GilReleased released;
    pack_rows(at<int64_t>(indptr), at<int64_t>(offsets), rows, vertices, neighbors_at(neighbors, bytes), edges,
              at<uint8_t>(stream));
  });
  m.def("unpack_rows", [](uintptr_t indptr, uintptr_t offsets, uintptr_t stream, int64_t stream_bytes, int64_t rows,
                          int64_t vertices, int64_t edges, uintptr_t neighbors, int bytes) {
    GilReleased released;
    return unpack_rows(packed_at(indptr, offsets, stream, stream_bytes, rows, vertices, edges), neighbors_at(neighbors, bytes));
  });
  m.def("unpack_heads", [](uintptr_t indptr, uintptr_t offsets, uintptr_t stream, int64_t stream_bytes, int64_t rows,
                           int64_t vertices, int64_t edges, uintptr_t heads, int bytes, int64_t count) {
    GilReleased released;
    return unpack_heads(packed_at(indptr, offsets, stream, stream_bytes, rows, vertices, edges), neighbors_at(heads, bytes),
                        count);
  });
  m.def("first_wrong_list", [](uintptr_t indptr, uintptr_t offsets, uintptr_t stream, int64_t stream_bytes, int64_t rows,
                               int64_t vertices, int64_t edges) {
    GilReleased released;
    return first_wrong_list(packed_at(indptr, offsets, stream, stream_bytes, rows, vertices, edges));
  });
  m.def("check_undirected", [](uintptr_t indptr, uintptr_t offsets, uintptr_t stream, int64_t stream_bytes, int64_t rows,
                               int64_t vertices, int64_t edges, uintptr_t weights, int weight_bytes, int weight_order) {
    GilReleased released;
    const UndirectedCheck found = check_undirected(packed_at(indptr, offsets, stream, stream_bytes, rows, vertices, edges),
                                                   {at<void>(weights), weight_bytes, static_cast<WeightOrder>(weight_order)});
    return std::pair{found.first_wrong, found.mirrored};
  });
  m.def("renumber_rows", [](uintptr_t indptr, uintptr_t neighbors, int bytes, uintptr_t weights, int weight_bytes,
                            int64_t edges, uintptr_t order, uintptr_t numbers, uintptr_t to_indptr, int64_t vertices,
                            uintptr_t to_neighbors, int to_bytes, uintptr_t to_weights) {
    GilReleased released;
    return renumber_rows(at<int64_t>(indptr), neighbors_at(neighbors, bytes), {at<void>(weights), weight_bytes}, edges,
                         at<int64_t>(order), at<int64_t>(numbers), at<int64_t>(to_indptr), vertices,
                         neighbors_at(to_neighbors, to_bytes), {at<void>(to_weights), weight_bytes});
  });
  m.def("queue_order", [](uintptr_t indptr, int64_t vertices, uintptr_t neighbors, int bytes, int64_t edges, uintptr_t roots,
                          bool by_degree, uintptr_t order) {
    GilReleased released;
    queue_order(at<int64_t>(indptr), vertices, neighbors_at(neighbors, bytes), edges, at<int64_t>(roots), by_degree,
                at<int64_t>(order));
  });
}

}  // namespace hinterland::native
