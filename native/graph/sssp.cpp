// Shortest paths on the CPU.
#include "graph/path_bins.hpp"

namespace nb = nanobind;

namespace hinterland::native {

const Binding graph_sssp([](nb::module_& m) {
  def_layout(m, "path_layout", &graph::PathState<graph::Shortest<float>>::path);
  def_loop(m, "sssp", find_paths<graph::Shortest>, nb::arg("weight_bytes"), nb::arg("weight_order"));
});

}  // namespace hinterland::native
