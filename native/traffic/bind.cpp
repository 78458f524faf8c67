#include "bindings.hpp"
#include "traffic/requests.hpp"

namespace nb = nanobind;

namespace hinterland::native {

void bind_traffic(nb::module_& m) {
  m.attr("TRAFFIC_FIELDS") = sizeof(LevelTraffic) / sizeof(int64_t);
  m.def(
      "count_traffic",
      [](const EmogiCase& run, uintptr_t stamps, int element_bytes, uintptr_t levels, int64_t num_levels) {
        GilReleased released;
        count_traffic(run, reinterpret_cast<const int32_t*>(stamps), element_bytes, reinterpret_cast<LevelTraffic*>(levels),
                      num_levels);
      },
      nb::arg("run"), nb::arg("stamps"), nb::arg("element_bytes"), nb::arg("levels"), nb::arg("num_levels"),
      "Adds the requests of each level to int64 [levels, 8]: those of 32, 64, 96 and 128 bytes, vertices served, useful "
      "bytes, distinct bytes, and how often the busiest warp waits.");
}

}  // namespace hinterland::native
