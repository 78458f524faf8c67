#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "bindings.hpp"
#include "graph/bind_arrays.hpp"
#include "graph/build.hpp"
#include "graph/row_loops.hpp"
#include "hinterland/core/atomic.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

template <class T>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

// scatter_entries of the entries of a text, which are gone afterwards.
void scatter_runs(const EdgeSource& source, int64_t* indptr, int64_t vertices, NeighborArray neighbors, WeightArray weights) {
  const RunEdges& edges = std::get<RunEdges>(source.edges);
  edges.runs->scatter(indptr, vertices, neighbors, weights, edges.weights);
}

// Where each edge begins and ends, row by row. Returns the position of the first neighbour that is no vertex, or -1.
int64_t list_edges(const int64_t* indptr, int64_t vertices, NeighborArray neighbors, int64_t edges, int64_t* sources,
                   int64_t* targets) {
  int64_t first = kNone;
  with_neighbors(neighbors, [&](const auto* ids) {
    for_each_row(indptr, vertices, edges, [&](int64_t row, const graph::Piece& list) {
      for (int64_t i = list.begin; i < list.end; ++i) {
        sources[i] = row;
        targets[i] = ids[i];
        if (targets[i] < 0 || targets[i] >= vertices) [[unlikely]]
          atomic_min(first, i);
      }
    });
  });
  return none_is_minus_one(first);
}

void bind_edges(nb::module_& m) {
  nb::class_<graph::EdgeRules>(m, "EdgeRules")
      .def(nb::init<bool, bool, bool>(), nb::kw_only(), nb::arg("mirror") = false, nb::arg("flip") = false,
           nb::arg("drop_loops") = false);

  // Edge sources point into arrays that they do not keep alive.
  nb::class_<EdgeSource>(m, "EdgeSource");
  m.def("listed_edges", [](uintptr_t from, uintptr_t to, int64_t count, int bytes) {
    if (bytes == 4) return EdgeSource{ListedEdges<int32_t>{at<int32_t>(from), at<int32_t>(to), count}};
    return EdgeSource{ListedEdges<int64_t>{at<int64_t>(from), at<int64_t>(to), count}};
  });
  m.def("csr_edges", [](uintptr_t indptr, uintptr_t indices, int64_t vertices, int64_t edges, int bytes) {
    if (bytes == 4) return EdgeSource{CsrEdges<int32_t>{at<int64_t>(indptr), at<int32_t>(indices), vertices, edges}};
    return EdgeSource{CsrEdges<int64_t>{at<int64_t>(indptr), at<int64_t>(indices), vertices, edges}};
  });
  def_native(m, "count_entries", count_entries);
  def_native(m, "scatter_entries", scatter_entries);
  def_native(m, "scatter_runs", scatter_runs);
  def_native(m, "scatter_order", scatter_order);
  def_native(m, "resolve_entries", resolve_entries);
}

void bind_rows(nb::module_& m) {
  def_native(m, "list_edges", list_edges);
  def_native(m, "sort_rows", sort_rows);
  def_native(m, "compact_rows", compact_rows);
  def_native(m, "first_wrong_offset", first_wrong_offset);
  def_native(m, "first_wrong_neighbor", first_wrong_neighbor);
  def_native(m, "rows_ascend", rows_ascend);
  def_native(m, "is_mirrored", is_mirrored);
  def_native(m, "sum_edges", sum_edges);
  def_native(m, "first_nan", first_nan);
  def_native(m, "check_rows", check_rows);
}

}  // namespace

const Binding graph_build([](nb::module_& m) {
  bind_edges(m);
  bind_rows(m);
});

}  // namespace hinterland::native
