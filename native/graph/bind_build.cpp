#include "bindings.hpp"

namespace hinterland::native {

void bind_graph_build(nanobind::module_&) {}

}  // namespace hinterland::native
