// What lists of neighbours have in common, on the CPU. Triangles of each vertex: each undirected edge leads from the vertex of
// fewer neighbours to the other ("forward", Schank and Wagner 2005), so that no list is longer than the square root of twice
// the edges, and each triangle is met once: as two edges from its first vertex whose ends have an edge. And Jaccard's
// coefficients of pairs.
#include "bindings.hpp"
#include "core/pool.hpp"
#include "graph/row_loops.hpp"
#include "hinterland/core/atomic.hpp"

namespace hinterland::native {
namespace {

// visit(neighbour) for what is in both lists, which ascend.
template <class Visit>
void for_each_common(const int64_t* neighbors, const graph::Piece& first, const graph::Piece& second, Visit&& visit) {
  for (int64_t a = first.begin, b = second.begin; a < first.end && b < second.end;) {
    const int64_t left = neighbors[a], right = neighbors[b];
    if (left == right) visit(left);
    a += left <= right;
    b += right <= left;
  }
}

// Lists are sorted, and each vertex in one is another one than whose list it is. Counts are added to.
void count_triangles(const int64_t* indptr, const int64_t* neighbors, int64_t vertices, int64_t* counts) {
  for_each_row(indptr, vertices, indptr[vertices], [&](int64_t u, const graph::Piece& list) {
    int64_t own = 0;
    for (int64_t i = list.begin; i < list.end; ++i) {
      const int64_t v = neighbors[i];
      int64_t closed = 0;
      for_each_common(neighbors, {list.begin, list.end}, {indptr[v], indptr[v + 1]}, [&](int64_t w) {
        atomic_add(counts[w], int64_t{1});
        ++closed;
      });
      if (closed != 0) atomic_add(counts[v], closed);
      own += closed;
    }
    if (own != 0) atomic_add(counts[u], own);
  });
}

// For pair i, of sources[i] and targets[i], how many vertices are in both sorted lists, and how many of them are not of the
// pair.
void count_common(const int64_t* indptr, const int64_t* neighbors, const int64_t* sources, const int64_t* targets,
                  int64_t pairs, int64_t* both, int64_t* others) {
  parallel_for(pairs, [&](int64_t i) {
    const int64_t u = sources[i], v = targets[i];
    for_each_common(neighbors, {indptr[u], indptr[u + 1]}, {indptr[v], indptr[v + 1]}, [&](int64_t w) {
      ++both[i];
      others[i] += w != u && w != v;
    });
  });
}

}  // namespace

const Binding graph_triangles([](nanobind::module_& m) {
  def_native(m, "count_triangles", count_triangles);
  def_native(m, "count_common", count_common);
});

}  // namespace hinterland::native
