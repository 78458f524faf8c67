// Packed neighbour lists of whole graphs. Python allocates between the steps.
#include "hinterland/graph/compress.hpp"

#include <nanobind/stl/pair.h>

#include <atomic>
#include <cstring>
#include <limits>

#include "core/pool.hpp"
#include "graph/bind_arrays.hpp"
#include "graph/mirror.hpp"
#include "graph/row_loops.hpp"
#include "hinterland/core/atomic.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::native {

// Packed rows: their degrees follow from indptr; row v is bytes [at[v], at[v + 1]) of `stream`. Its neighbours are below
// `vertices`, which decides how wide the fields are.
struct PackedArrays {
  const int64_t* indptr;
  const int64_t* at;
  const void* stream;
  int64_t rows, vertices, edges;
  int64_t stream_bytes;
};

template <>
struct Argument<const PackedArrays&> {
  using Parts = std::tuple<uintptr_t, uintptr_t, uintptr_t, int64_t, int64_t, int64_t, int64_t>;
  static PackedArrays whole(uintptr_t indptr, uintptr_t offsets, uintptr_t stream, int64_t stream_bytes, int64_t rows,
                            int64_t vertices, int64_t edges) {
    return {reinterpret_cast<const int64_t*>(indptr),
            reinterpret_cast<const int64_t*>(offsets),
            reinterpret_cast<const void*>(stream),
            rows,
            vertices,
            edges,
            stream_bytes};
  }
};

namespace {

graph::BitReader<memory::Pointer<uint32_t>> bits_of(const PackedArrays& packed) {
  return {memory::Pointer<uint32_t>(packed.stream)};
}

// The packed list of one row, read block by block.
class PackedRow {
 public:
  PackedRow(const PackedArrays& packed, int64_t row, int64_t degree)
      : bits_(bits_of(packed)),
        shape_(packed.vertices, degree),
        bytes_(graph::list_within(packed.at, row, packed.stream_bytes - graph::packed_bytes(0))) {}

  const graph::PackedShape& shape() const { return shape_; }
  int64_t list_bit() const { return 8 * bytes_.begin; }
  int64_t bytes() const { return bytes_.length(); }

  // use(block), if the block lies within the row's bytes. Returns whether it does.
  template <class Use>
  bool with_block(int64_t number, Use&& use) const {
    if (shape_.directory_bits() > 8 * bytes_.length()) return false;
    const graph::PackedBlock block(bits_, list_bit(), shape_, number);
    if (block.low_bits > shape_.vertex_bits || block.end() > 8 * bytes_.end) return false;
    use(block);
    return true;
  }

 private:
  graph::BitReader<memory::Pointer<uint32_t>> bits_;
  graph::PackedShape shape_;
  graph::Piece bytes_;
};

// Sets at[0 .. rows] to where each packed list will begin. Returns how many bytes they take, or -1 if a list does not
// ascend among the vertices: sort_rows first.
int64_t pack_offsets(const int64_t* indptr, int64_t rows, int64_t vertices, NeighborArray neighbors, int64_t edges,
                     int64_t* at) {
  std::atomic<bool> ascend{true};
  at[0] = 0;
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, rows, edges, [&](int64_t v, const graph::Piece& list) {
      const bool among = list.length() == 0 || (ids[list.begin] >= 0 && ids[list.end - 1] < vertices);
      at[v + 1] = among ? packed_list_bytes(graph::PackedShape(vertices, list.length()), ids + list.begin) : -1;
      if (at[v + 1] < 0) ascend = false;
    });
  });
  return ascend ? inclusive_sum(at + 1, rows) : -1;
}

// Writes the packed lists to stream[0 .. packed_bytes(at[rows])).
void pack_rows(const int64_t* indptr, int64_t rows, int64_t vertices, NeighborArray neighbors, int64_t edges, const int64_t* at,
               uint8_t* stream) {
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, rows, edges, [&](int64_t v, const graph::Piece& list) {
      pack_list(graph::PackedShape(vertices, list.length()), ids + list.begin, stream + at[v], at[v + 1] - at[v]);
    });
  });
  std::memset(stream + at[rows], 0, graph::packed_bytes(at[rows]) - at[rows]);
}

// This and unpack_prefix() return the first row with a block that does not lie within the row's bytes, or -1.
int64_t unpack_rows(const PackedArrays& packed, NeighborArray neighbors) {
  int64_t first = kNone;
  with_neighbors(neighbors, [&](auto* ids) {
    using Id = std::remove_reference_t<decltype(*ids)>;
    const auto bits = bits_of(packed);
    for_each_row(packed.indptr, packed.rows, packed.edges, [&](int64_t v, const graph::Piece& list) {
      const PackedRow row(packed, v, list.length());
      for (int64_t k = 0; k < row.shape().blocks; ++k) {
        Id* out = ids + list.begin + k * graph::kPackedBlock;
        const bool there = row.with_block(k, [&](const graph::PackedBlock& block) {
          block.for_each(bits, [&](int j, int64_t neighbor) { out[j] = static_cast<Id>(neighbor); });
        });
        if (!there) return atomic_min(first, v), void();
      }
    });
  });
  return none_is_minus_one(first);
}

// The first `count` neighbours of each row, neighbour j of row v at adjacency_prefix[j * rows + v]; -1 where there is none.
int64_t unpack_prefix(const PackedArrays& packed, NeighborArray adjacency_prefix, int64_t count) {
  int64_t first = kNone;
  with_neighbors(adjacency_prefix, [&](auto* ids) {
    using Id = std::remove_reference_t<decltype(*ids)>;
    const auto bits = bits_of(packed);
    parallel_for(packed.rows, [&](int64_t v) {
      const int64_t degree = graph::list_within(packed.indptr, v, packed.edges).length();
      const PackedRow row(packed, v, degree);
      for (int64_t j = 0; j < count; ++j) {
        Id& head = ids[j * packed.rows + v] = -1;
        if (j >= degree) continue;
        const bool there = row.with_block(j / graph::kPackedBlock, [&](const graph::PackedBlock& block) {
          head = static_cast<Id>(block.neighbor(bits, static_cast<int>(j % graph::kPackedBlock)));
        });
        if (!there || head < 0 || head >= packed.vertices) atomic_min(first, v);
      }
    });
  });
  return none_is_minus_one(first);
}

struct ListsCheck {
  int64_t first_wrong;
  uint64_t sum;
};

// The first wrong list, and the sum of term(row, i, neighbour) over all entries i of the graph.
template <class Term>
ListsCheck check_lists(const PackedArrays& packed, Term&& term) {
  const auto bits = bits_of(packed);
  int64_t first = kNone;
  std::atomic<uint64_t> sum{0};
  for_each_row(packed.indptr, packed.rows, packed.edges, [&](int64_t v, const graph::Piece& list) {
    const PackedRow row(packed, v, list.length());
    uint64_t part = 0;
    const auto add = [&](int64_t i, int64_t neighbor) { part += term(v, list.begin + i, neighbor); };
    if (!packed_list_is_right(bits, row.list_bit(), row.shape(), packed.vertices, row.bytes(), add)) atomic_min(first, v);
    if (part != 0) sum.fetch_add(part, std::memory_order_relaxed);
  });
  return {none_is_minus_one(first), sum};
}

// The first row whose packed list is not what its degree and bytes promise, or -1.
int64_t first_wrong_list(const PackedArrays& packed) {
  return check_lists(packed, [](int64_t, int64_t, int64_t) { return uint64_t{0}; }).first_wrong;
}

// In one pass first_wrong_list, and is_mirrored if no list is wrong. There is a weight for each neighbour, or none at all.
std::pair<int64_t, bool> check_undirected(const PackedArrays& packed, WeightArray weights) {
  const auto weighted = [&](int64_t row, int64_t i, int64_t neighbor) {
    return up_less_down(row, neighbor, weight_bits(weights, i));
  };
  const auto plain = [](int64_t row, int64_t, int64_t neighbor) { return up_less_down(row, neighbor, 0); };
  const ListsCheck found = weights.data == nullptr ? check_lists(packed, plain) : check_lists(packed, weighted);
  return {found.first_wrong, found.sum == 0};
}

}  // namespace

const Binding graph_compress([](nanobind::module_& m) {
  m.def("packed_bytes", &graph::packed_bytes);
  def_native(m, "pack_offsets", pack_offsets);
  def_native(m, "pack_rows", pack_rows);
  def_native(m, "unpack_rows", unpack_rows);
  def_native(m, "unpack_prefix", unpack_prefix);
  def_native(m, "first_wrong_list", first_wrong_list);
  def_native(m, "check_undirected", check_undirected);
});

}  // namespace hinterland::native
