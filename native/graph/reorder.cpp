#include "graph/reorder.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "graph/rows.hpp"

namespace hinterland::native {

void queue_order(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, const int64_t* roots, bool by_degree,
                 int64_t* order) {
  std::vector<char> met(vertices, 0);
  int64_t end = 0;  // the queue is order[head .. end)
  const auto join = [&](int64_t v) {
    if (met[v]) return;
    met[v] = 1;
    order[end++] = v;
  };
  const auto before = [&](int64_t a, int64_t b) {
    const int64_t of_a = indptr[a + 1] - indptr[a], of_b = indptr[b + 1] - indptr[b];
    return of_a != of_b ? of_a < of_b : a < b;
  };
  constexpr int64_t kAhead = 16;
  with_neighbors(neighbors, [&](const auto* ids) {
    for (int64_t root = 0, head = 0; root < vertices; ++root) {
      for (join(roots[root]); head < end; ++head) {
        const int64_t u = order[head], first = end;
        for (int64_t i = indptr[u]; i < indptr[u + 1]; ++i) {
          if (i + kAhead < indptr[u + 1]) __builtin_prefetch(&met[ids[i + kAhead]]);
          join(ids[i]);
        }
        if (by_degree) std::sort(order + first, order + end, before);
      }
    }
  });
}

void renumber_rows(const int64_t* indptr, NeighborArray neighbors, WeightArray weights, const int64_t* order,
                   const int64_t* numbers, const int64_t* to_indptr, int64_t vertices, NeighborArray to_neighbors,
                   WeightArray to_weights) {
  constexpr int64_t kAhead = 16;
  with_neighbors(neighbors, [&](const auto* ids) {
    with_neighbors(to_neighbors, [&](auto* to) {
      for_each_row(to_indptr, vertices, [&](int64_t row) {
        const int64_t from = indptr[order[row]], at = to_indptr[row], count = to_indptr[row + 1] - at;
        for (int64_t i = 0; i < count; ++i) {
          if (i + kAhead < count) __builtin_prefetch(&numbers[ids[from + i + kAhead]]);
          to[at + i] = static_cast<std::remove_reference_t<decltype(*to)>>(numbers[ids[from + i]]);
        }
        if (weights.data && count > 0)
          std::memcpy(static_cast<char*>(to_weights.data) + at * weights.bytes,
                      static_cast<const char*>(weights.data) + from * weights.bytes, count * weights.bytes);
      });
    });
  });
}

}  // namespace hinterland::native
