#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <bit>

#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/sssp.hpp"
#include "hinterland/graph/sswp.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

// A kernel's parameters are integers; so are the CPU's, and the bits of delta come as one.
template <auto run>
void bind_paths(nb::module_& m, const char* name) {
  m.def(
      name,
      [](uintptr_t graph, int64_t source, uintptr_t keys, uintptr_t scratch, int64_t delta, int64_t light,
         int64_t weight_bytes, int64_t weight_order) {
        GilReleased released;
        run(*words(graph), {weight_bytes, weight_order}, source, reinterpret_cast<void*>(keys),
            reinterpret_cast<char*>(scratch), std::bit_cast<double>(delta), light);
      },
      nb::arg("graph"), nb::arg("source"), nb::arg("keys"), nb::arg("scratch"), nb::arg("delta"), nb::arg("light"),
      nb::arg("weight_bytes"), nb::arg("weight_order"));
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
        return scratch_layout(at, at.frontier);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"));
  bind_paths<sssp>(m, "sssp");
  bind_paths<sswp>(m, "sswp");
  m.def(
      "verify_paths",
      [](uintptr_t graph, int64_t weight_bytes, int64_t weight_order, bool widest, int64_t source, uintptr_t found) {
        GilReleased released;
        const PathFinding finding = verify_paths(*words(graph), {weight_bytes, weight_order}, widest, source,
                                                 reinterpret_cast<const void*>(found));
        return std::pair(static_cast<int64_t>(finding.rule), finding.position);
      },
      nb::arg("graph"), nb::arg("weight_bytes"), nb::arg("weight_order"), nb::arg("widest"), nb::arg("source"),
      nb::arg("found"));
}

}  // namespace hinterland::native
