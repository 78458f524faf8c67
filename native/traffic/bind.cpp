#include "bindings.hpp"
#include "traffic/requests.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_traffic(nb::module_& m) {
  m.attr("TRAFFIC_FIELDS") = sizeof(LevelTraffic) / sizeof(int64_t);
  def_native(m, "count_traffic", count_traffic, nb::arg("run"), nb::arg("stamps"), nb::arg("element_bytes"), nb::arg("levels"),
             nb::arg("num_levels"),
             "Adds the requests of each level to int64 [levels, 8]: those of 32, 64, 96 and 128 bytes, vertices served, useful "
             "bytes, distinct bytes, and how often the busiest warp waits.");
}

}  // namespace hinterland::native
