#include "graph/compress.hpp"

#include <atomic>
#include <cstring>
#include <limits>

#include "core/parallel.hpp"
#include "graph/mirror.hpp"
#include "graph/rows.hpp"
#include "hinterland/core/atomic.hpp"
#include "hinterland/graph/compress.hpp"
#include "hinterland/memory/source.hpp"

namespace hinterland::native {

namespace {

BitReader<PointerSource<uint32_t>> bits_of(const PackedArrays& packed) {
  return {{static_cast<const uint32_t*>(packed.stream)}};
}

PackedShape shape_of(const int64_t* indptr, int64_t vertices, int64_t v) {
  return {vertices, indptr[v + 1] - indptr[v]};
}

}  // namespace

int64_t pack_offsets(const int64_t* indptr, int64_t rows, int64_t vertices, NeighborArray neighbors, int64_t* at) {
  std::atomic<bool> ascend{true};
  at[0] = 0;
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, rows, [&](int64_t v) {
      at[v + 1] = packed_list_bytes(shape_of(indptr, vertices, v), ids + indptr[v]);
      if (at[v + 1] < 0) ascend = false;
    });
  });
  return ascend ? inclusive_sum(at + 1, rows) : -1;
}

void pack_rows(const int64_t* indptr, const int64_t* at, int64_t rows, int64_t vertices, NeighborArray neighbors,
               uint8_t* stream) {
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, rows, [&](int64_t v) {
      pack_list(shape_of(indptr, vertices, v), ids + indptr[v], stream + at[v]);
    });
  });
  std::memset(stream + at[rows], 0, packed_bytes(at[rows]) - at[rows]);
}

void unpack_rows(const PackedArrays& packed, NeighborArray neighbors) {
  with_neighbors(neighbors, [&](auto* ids) {
    using Id = std::remove_reference_t<decltype(*ids)>;
    const auto bits = bits_of(packed);
    for_each_row(packed.indptr, packed.rows, [&](int64_t v) {
      const PackedShape shape = shape_of(packed.indptr, packed.vertices, v);
      for (int64_t k = 0; k < shape.blocks; ++k) {
        Id* out = ids + packed.indptr[v] + k * kPackedBlock;
        PackedBlock(bits, 8 * packed.at[v], shape, k).for_each(bits, [&](int j, int64_t neighbor) {
          out[j] = static_cast<Id>(neighbor);
        });
      }
    });
  });
}

void unpack_heads(const PackedArrays& packed, NeighborArray heads, int64_t count) {
  with_neighbors(heads, [&](auto* ids) {
    using Id = std::remove_reference_t<decltype(*ids)>;
    const auto bits = bits_of(packed);
    parallel_for(packed.rows, [&](int64_t v) {
      const PackedShape shape = shape_of(packed.indptr, packed.vertices, v);
      for (int64_t j = 0; j < count; ++j) {
        const int64_t block = j / kPackedBlock;
        ids[j * packed.rows + v] =
            j < shape.degree ? static_cast<Id>(PackedBlock(bits, 8 * packed.at[v], shape, block)
                                                   .neighbor(bits, static_cast<int>(j % kPackedBlock)))
                             : Id{-1};
      }
    });
  });
}

namespace {

struct ListsCheck {
  int64_t first_wrong;
  uint64_t sum;
};

// The first wrong list, and the sum of term(row, i, neighbour) over all entries i of the graph.
template <class Term>
ListsCheck check_lists(const PackedArrays& packed, Term&& term) {
  const auto bits = bits_of(packed);
  int64_t first = std::numeric_limits<int64_t>::max();
  std::atomic<uint64_t> sum{0};
  for_each_row(packed.indptr, packed.rows, [&](int64_t v) {
    const int64_t begin = packed.indptr[v], bytes = packed.at[v + 1] - packed.at[v];
    uint64_t part = 0;
    const auto add = [&](int64_t i, int64_t neighbor) { part += term(v, begin + i, neighbor); };
    const PackedShape shape = shape_of(packed.indptr, packed.vertices, v);
    if (!packed_list_is_right(bits, 8 * packed.at[v], shape, packed.vertices, bytes, add)) atomic_min(first, v);
    if (part != 0) sum.fetch_add(part, std::memory_order_relaxed);
  });
  return {first == std::numeric_limits<int64_t>::max() ? -1 : first, sum};
}

}  // namespace

int64_t first_wrong_list(const PackedArrays& packed) {
  return check_lists(packed, [](int64_t, int64_t, int64_t) { return uint64_t{0}; }).first_wrong;
}

UndirectedCheck check_undirected(const PackedArrays& packed, WeightArray weights) {
  const auto weighted = [&](int64_t row, int64_t i, int64_t neighbor) {
    return up_less_down(row, neighbor, weight_bits(weights, i));
  };
  const auto plain = [](int64_t row, int64_t, int64_t neighbor) { return up_less_down(row, neighbor, 0); };
  const ListsCheck found = weights.data == nullptr ? check_lists(packed, plain) : check_lists(packed, weighted);
  return {found.first_wrong, found.sum == 0};
}

}  // namespace hinterland::native
