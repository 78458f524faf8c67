// Widest paths on the CPU.
#include "hinterland/graph/sswp.hpp"

#include "graph/path_bins.hpp"

namespace nb = nanobind;

namespace hinterland::native {

const Binding graph_sswp([](nb::module_& m) {
  def_loop(m, "sswp", find_paths<graph::Widest>, nb::arg("weight_bytes"), nb::arg("weight_order"));
});

}  // namespace hinterland::native
