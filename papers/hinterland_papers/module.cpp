// hinterland_papers._core: the CPU's loops of what only reproduces a paper.
#include "bindings.hpp"

namespace hinterland::native {

void bind_emogi(nanobind::module_& m);
void bind_traffic(nanobind::module_& m);
void bind_stored(nanobind::module_& m);
void bind_deep(nanobind::module_& m);
void bind_patterns(nanobind::module_& m);

}  // namespace hinterland::native

NB_MODULE(_core, m) {
  namespace hn = hinterland::native;
  hn::begin_module(m);
  hn::bind_emogi(m);
  hn::bind_traffic(m);
  hn::bind_stored(m);
  hn::bind_deep(m);
  hn::bind_patterns(m);
}
