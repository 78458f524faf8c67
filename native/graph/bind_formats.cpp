#include "bindings.hpp"

namespace hinterland::native {

void bind_graph_formats(nanobind::module_&) {}

}  // namespace hinterland::native
