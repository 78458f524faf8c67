#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "graph/bind_views.hpp"
#include "graph/msbfs.hpp"
#include "hinterland/graph/msbfs.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_graph_msbfs(nb::module_& m) {
  m.def(
      "msbfs_layout",
      [](int64_t num_vertices, int64_t num_edges) {
        const graph::MsBfsLayout at(num_vertices, num_edges);
        return std::tuple(scratch_layout(at, at.frontier), at.control);
      },
      nb::arg("num_vertices"), nb::arg("num_edges"));
  m.def(
      "msbfs",
      [](uintptr_t graph, uintptr_t incoming, uintptr_t sources, int64_t num_sources, uintptr_t levels, uintptr_t scratch,
         int mask_bytes) {
        GilReleased released;
        msbfs(*words(graph), words(incoming), reinterpret_cast<const int64_t*>(sources), num_sources,
              reinterpret_cast<int32_t*>(levels), reinterpret_cast<char*>(scratch), mask_bytes);
      },
      nb::arg("graph"), nb::arg("incoming"), nb::arg("sources"), nb::arg("num_sources"), nb::arg("levels"),
      nb::arg("scratch"), nb::arg("mask_bytes"));
}

}  // namespace hinterland::native
