#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include "bindings.hpp"
#include "graph/build.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

template <class T>
T* at(uintptr_t address) {
  return reinterpret_cast<T*>(address);
}

NeighborArray neighbors_at(uintptr_t address, int bytes) { return {at<void>(address), bytes}; }

WeightArray weights_at(uintptr_t address, int bytes, int order) {
  return {bytes ? at<void>(address) : nullptr, bytes, static_cast<WeightOrder>(order)};
}

void bind_edges(nb::module_& m) {
  nb::class_<graph::EdgeRules>(m, "EdgeRules")
      .def(
          "__init__",
          [](graph::EdgeRules* self, bool mirror, bool flip, bool drop_loops) {
            new (self) graph::EdgeRules{mirror, flip, drop_loops};
          },
          nb::kw_only(), nb::arg("mirror") = false, nb::arg("flip") = false, nb::arg("drop_loops") = false);

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
  m.def("count_entries", [](const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices, uintptr_t indptr) {
    GilReleased released;
    const CountResult result = count_entries(source, rules, vertices, at<int64_t>(indptr));
    return std::pair{result.entries, result.first_bad};
  });
  m.def("scatter_entries",
        [](const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices, uintptr_t indptr, uintptr_t neighbors,
           int neighbor_bytes, uintptr_t weights_from, uintptr_t weights_to, int weight_bytes) {
          GilReleased released;
          scatter_entries(source, rules, vertices, at<int64_t>(indptr), neighbors_at(neighbors, neighbor_bytes),
                          weights_at(weights_from, weight_bytes, 0), weights_at(weights_to, weight_bytes, 0));
        });
  m.def(
      "scatter_runs",
      [](const EdgeSource& source, uintptr_t indptr, int64_t vertices, uintptr_t neighbors, int neighbor_bytes,
         uintptr_t weights, int weight_bytes) {
        GilReleased released;
        const RunEdges& edges = std::get<RunEdges>(source.edges);
        edges.runs->scatter(at<int64_t>(indptr), vertices, neighbors_at(neighbors, neighbor_bytes),
                            weights_at(weights, weight_bytes, 0), edges.weights);
      },
      "scatter_entries of the entries of a text, which are gone afterwards.");
  m.def("scatter_order",
        [](const EdgeSource& source, const graph::EdgeRules& rules, int64_t vertices, uintptr_t indptr, uintptr_t order) {
          GilReleased released;
          scatter_order(source, rules, vertices, at<int64_t>(indptr), at<int64_t>(order));
        });
  m.def("resolve_entries",
        [](const EdgeSource& source, const graph::EdgeRules& rules, uintptr_t order, int64_t entries, uintptr_t neighbors,
           int neighbor_bytes, uintptr_t weights_from, uintptr_t weights_to, int weight_bytes) {
          GilReleased released;
          resolve_entries(source, rules, at<int64_t>(order), entries, neighbors_at(neighbors, neighbor_bytes),
                          weights_at(weights_from, weight_bytes, 0), weights_at(weights_to, weight_bytes, 0));
        });
}

void bind_rows(nb::module_& m) {
  m.def("sort_rows", [](uintptr_t indptr, int64_t vertices, uintptr_t neighbors, int neighbor_bytes, uintptr_t weights,
                        int weight_bytes, int weight_order, uintptr_t kept) {
    GilReleased released;
    return sort_rows(at<int64_t>(indptr), vertices, neighbors_at(neighbors, neighbor_bytes),
                     weights_at(weights, weight_bytes, weight_order), at<int64_t>(kept));
  });
  m.def("compact_rows", [](uintptr_t indptr, uintptr_t kept, int64_t vertices, uintptr_t from, uintptr_t to, int bytes) {
    GilReleased released;
    compact_rows(at<int64_t>(indptr), at<int64_t>(kept), vertices, at<void>(from), at<void>(to), bytes);
  });
  m.def("first_wrong_offset", [](uintptr_t indptr, int64_t vertices, int64_t edges) {
    GilReleased released;
    return first_wrong_offset(at<int64_t>(indptr), vertices, edges);
  });
  m.def("first_wrong_neighbor", [](uintptr_t neighbors, int bytes, int64_t edges, int64_t vertices) {
    GilReleased released;
    return first_wrong_neighbor(neighbors_at(neighbors, bytes), edges, vertices);
  });
  m.def("rows_ascend", [](uintptr_t indptr, int64_t vertices, uintptr_t neighbors, int bytes, int64_t edges) {
    GilReleased released;
    return rows_ascend(at<int64_t>(indptr), vertices, neighbors_at(neighbors, bytes), edges);
  });
  m.def("check_rows",
        [](uintptr_t indptr, int64_t vertices, uintptr_t neighbors, int bytes, int64_t edges) -> std::optional<bool> {
          GilReleased released;
          const Rows found = check_rows(at<int64_t>(indptr), vertices, neighbors_at(neighbors, bytes), edges);
          return found == Rows::kWrong ? std::nullopt : std::optional(found == Rows::kAscend);
        });
  m.def("is_mirrored", [](uintptr_t indptr, int64_t vertices, uintptr_t neighbors, int bytes, uintptr_t weights,
                          int weight_bytes, int weight_order, int64_t edges) {
    GilReleased released;
    return is_mirrored(at<int64_t>(indptr), vertices, neighbors_at(neighbors, bytes),
                       weights_at(weights, weight_bytes, weight_order), edges);
  });
  m.def("first_nan", [](uintptr_t values, int64_t count, int bytes, uint64_t infinity) {
    GilReleased released;
    return first_nan(at<void>(values), count, bytes, infinity);
  });
}

}  // namespace

void bind_graph_build(nb::module_& m) {
  bind_edges(m);
  bind_rows(m);
}

}  // namespace hinterland::native
