#include "bindings.hpp"

namespace hinterland::native {

void bind_graph_generate(nanobind::module_&) {}

}  // namespace hinterland::native
