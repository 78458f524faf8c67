#include "bindings.hpp"

namespace hinterland::native {

void bind_graph_bfs(nanobind::module_&) {}

}  // namespace hinterland::native
