// Triangles of each vertex, on the CPU. Each undirected edge leads from the vertex of fewer neighbours to the other ("forward",
// Schank and Wagner 2005), so that no list is longer than the square root of twice the edges, and each triangle is met once: as
// two edges from its first vertex whose ends have an edge.
#include "bindings.hpp"
#include "graph/rows.hpp"
#include "hinterland/core/atomic.hpp"

namespace hinterland::native {
namespace {

// Lists are sorted, and each vertex in one is another one than whose list it is. Counts are added to.
void count_triangles(const int64_t* indptr, const int64_t* neighbors, int64_t vertices, int64_t* counts) {
  for_each_row(indptr, vertices, indptr[vertices], [&](int64_t u, const graph::Piece& list) {
    int64_t own = 0;
    for (int64_t i = list.begin; i < list.end; ++i) {
      const int64_t v = neighbors[i];
      int64_t closed = 0;
      for (int64_t a = list.begin, b = indptr[v]; a < list.end && b < indptr[v + 1];) {
        const int64_t left = neighbors[a], right = neighbors[b];
        if (left == right) atomic_add(counts[left], int64_t{1}), ++closed;
        a += left <= right;
        b += right <= left;
      }
      if (closed != 0) atomic_add(counts[v], closed);
      own += closed;
    }
    if (own != 0) atomic_add(counts[u], own);
  });
}

}  // namespace

void bind_graph_triangles(nanobind::module_& m) { def_native(m, "count_triangles", count_triangles); }

}  // namespace hinterland::native
