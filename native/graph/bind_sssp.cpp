#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/sssp.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(graph::PathParams, graph, source, keys, scratch, delta, light);
HINTERLAND_STRUCT(graph::PathControl, least, buckets, padding);

namespace {

template <void (*loop)(const graph::PathParams&, WeightKind)>
void by_kind(const graph::PathParams& params, int64_t weight_bytes, int64_t weight_order) {
  loop(params, {weight_bytes, weight_order});
}

}  // namespace

void bind_graph_sssp(nb::module_& m) {
  nb::dict rules;
  rules["source"] = static_cast<int64_t>(PathRule::kSource);
  rules["range"] = static_cast<int64_t>(PathRule::kRange);
  rules["graph"] = static_cast<int64_t>(PathRule::kGraph);
  rules["edge"] = static_cast<int64_t>(PathRule::kEdge);
  rules["tight"] = static_cast<int64_t>(PathRule::kTight);
  m.attr("PATH_RULES") = rules;
  m.def(
      "path_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::PathLayout at(num_vertices, num_edges);
        return std::pair(scratch_layout(at, at.frontier), at.path);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"), "Scratch memory of a search, and where in it PathControl lies.");
  def_loop(m, "sssp", by_kind<sssp>, nb::arg("weight_bytes"), nb::arg("weight_order"));
  def_loop(m, "sswp", by_kind<sswp>, nb::arg("weight_bytes"), nb::arg("weight_order"));
  m.def(
      "verify_paths",
      [](uintptr_t graph, int64_t weight_bytes, int64_t weight_order, bool widest, int64_t source, uintptr_t found) {
        GilReleased released;
        const PathFinding finding =
            verify_paths(*words(graph), {weight_bytes, weight_order}, widest, source, reinterpret_cast<const void*>(found));
        return std::pair(static_cast<int64_t>(finding.rule), finding.position);
      },
      nb::arg("graph"), nb::arg("weight_bytes"), nb::arg("weight_order"), nb::arg("widest"), nb::arg("source"),
      nb::arg("found"));
}

}  // namespace hinterland::native
