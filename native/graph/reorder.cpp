// Vertex orders that put the neighbours of a vertex near each other.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/thresholds.hpp"
#include "graph/bind_arrays.hpp"
#include "graph/row_loops.hpp"

namespace hinterland::native {

namespace {

// The order in which a queue meets the vertices: order[i] is the i-th. Where the queue runs empty, the next vertex of `roots`
// (every vertex once) that was not met yet begins anew. The neighbours of a vertex join as its row has them or, with
// `by_degree`, those of smaller degree first, ties by number: Cuthill and McKee's order (1969), which George (1971) reverses.
void queue_order(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges, const int64_t* roots,
                 bool by_degree, int64_t* order) {
  std::vector<char> met(vertices, 0);
  int64_t end = 0;  // the queue is order[head .. end)
  const auto join = [&](int64_t v) {
    if (v < 0 || v >= vertices || met[v]) return;
    met[v] = 1;
    order[end++] = v;
  };
  // Degrees are read once: a sort whose order changes meanwhile would leave its range.
  struct Joined {
    int64_t degree, v;
    bool operator<(const Joined& other) const { return degree != other.degree ? degree < other.degree : v < other.v; }
  };
  std::vector<Joined> joined;
  const auto sort = [&](int64_t first) {
    joined.clear();
    for (int64_t i = first; i < end; ++i) joined.push_back({graph::list_within(indptr, order[i], edges).length(), order[i]});
    std::sort(joined.begin(), joined.end());
    for (int64_t i = first; i < end; ++i) order[i] = joined[i - first].v;
  };
  with_neighbors(neighbors, [&](const auto* ids) {
    for (int64_t root = 0, head = 0; root < vertices; ++root) {
      for (join(roots[root]); head < end; ++head) {
        const int64_t u = order[head], first = end;
        const graph::Piece list = graph::list_within(indptr, u, edges);
        for (int64_t i = list.begin; i < list.end; ++i) {
          if (i + kReorderAhead < list.end) __builtin_prefetch(met.data() + ids[i + kReorderAhead]);
          join(ids[i]);
        }
        if (by_degree && end - first > 1) sort(first);
      }
    }
  });
}

// Row i becomes row order[i] of `indptr`, with each neighbour v as numbers[v] and with its weights. `to_indptr` has the offsets
// of the new rows, whose neighbours are in the order of the old ones: sort_rows follows. Returns whether all are vertices.
bool renumber_rows(const int64_t* indptr, NeighborArray neighbors, WeightArray weights, int64_t edges, const int64_t* order,
                   const int64_t* numbers, const int64_t* to_indptr, int64_t vertices, NeighborArray to_neighbors,
                   WeightArray to_weights) {
  std::atomic<bool> all{true};
  with_neighbors(neighbors, [&](const auto* ids) {
    with_neighbors(to_neighbors, [&](auto* to) {
      for_each_row(to_indptr, vertices, edges, [&](int64_t row, const graph::Piece& list) {
        const int64_t from = graph::list_within(indptr, order[row], edges).begin, at = list.begin;
        const int64_t count = std::min(list.length(), edges - from);
        for (int64_t i = 0; i < count; ++i) {
          if (i + kReorderAhead < count) __builtin_prefetch(numbers + ids[from + i + kReorderAhead]);
          int64_t v = ids[from + i];
          if (static_cast<uint64_t>(v) >= static_cast<uint64_t>(vertices)) [[unlikely]]
            all = false, v = 0;
          to[at + i] = static_cast<std::remove_reference_t<decltype(*to)>>(numbers[v]);
        }
        if (weights.data && count > 0)
          std::memcpy(static_cast<char*>(to_weights.data) + at * weights.bytes,
                      static_cast<const char*>(weights.data) + from * weights.bytes, count * weights.bytes);
      });
    });
  });
  return all;
}

}  // namespace

const Binding graph_reorder([](nanobind::module_& m) {
  def_native(m, "queue_order", queue_order);
  def_native(m, "renumber_rows", renumber_rows);
});

}  // namespace hinterland::native
