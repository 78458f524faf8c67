#include "bindings.hpp"

namespace hinterland::native {

void bind_memory(nanobind::module_&) {}

}  // namespace hinterland::native
