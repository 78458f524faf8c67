#include "bindings.hpp"
#include "hotness/propagate.hpp"
#include "params.hpp"

namespace hinterland::native {

HINTERLAND_STRUCT(hotness::PropagateParams, graph, values, sums, pull, scratch);

void bind_hotness(nanobind::module_& m) { def_loop(m, "propagate", propagate); }

}  // namespace hinterland::native
