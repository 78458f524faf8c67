// Devices in software that Python has controllers serve: memory as slow as a device, and devices that fail.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include "bindings.hpp"
#include "hinterland_papers/bam/faults.hpp"
#include "hinterland_papers/bam/memory_namespace.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

using Blocks = std::shared_ptr<Namespace>;

Faults faults_of(const nb::dict& given) {
  Faults faults;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "retryable")
      faults.retryable = nb::cast<unsigned>(value);
    else if (name == "fatal")
      faults.fatal = nb::cast<unsigned>(value);
    else if (name == "late")
      faults.late = nb::cast<unsigned>(value);
    else if (name == "lost")
      faults.lost = nb::cast<unsigned>(value);
    else if (name == "torn")
      faults.torn = nb::cast<unsigned>(value);
    else if (name == "reorder")
      faults.reorder = nb::cast<bool>(value);
    else if (name == "removed_after")
      faults.removed_after = nb::cast<uint64_t>(value);
    else if (name == "late_most")
      faults.late_most = nb::cast<uint64_t>(value);
    else
      throw nb::value_error(("there is no fault " + name + "; see papers/hinterland_papers/bam/faults.hpp").c_str());
  }
  return faults;
}

nb::tuple told(const Timing& timing) {
  return nb::make_tuple(timing.latency_ns, timing.bytes_per_second, timing.requests_per_second, timing.parallelism);
}

}  // namespace

const Binding bam_devices([](nb::module_& m) {
  nb::dict timings;
  timings["none"] = told(kNoDelay);
  timings["optane"] = told(kOptane);
  timings["z-nand"] = told(kZNand);
  timings["nand"] = told(kNand);
  m.attr("TIMINGS") = timings;
  m.def(
      "memory_blocks",
      [](uint64_t address, uint64_t bytes, const std::tuple<uint64_t, uint64_t, uint64_t, uint32_t>& timing) -> Blocks {
        const auto& [latency, bytes_per_second, requests_per_second, parallelism] = timing;
        return std::make_shared<MemoryNamespace>(reinterpret_cast<char*>(address), bytes,
                                                 Timing{latency, bytes_per_second, requests_per_second, parallelism});
      },
      nb::arg("address"), nb::arg("bytes"), nb::arg("timing"),
      nb::sig("def memory_blocks(address: int, bytes: int, timing: tuple[int, int, int, int]) -> hinterland._core.Namespace"),
      "`timing`: (latency in ns, bytes a second, requests a second, requests at once), 0 for no limit.");
  m.def(
      "faulty_blocks",
      [](Blocks blocks, const nb::dict& faults, uint64_t seed) -> Blocks {
        return std::make_shared<FaultyNamespace>(std::move(blocks), faults_of(faults), seed);
      },
      nb::arg("blocks"), nb::arg("faults"), nb::arg("seed"),
      nb::sig("def faulty_blocks(blocks: hinterland._core.Namespace, faults: dict[str, int], seed: int) -> "
              "hinterland._core.Namespace"),
      "`faults`: how many commands of a thousand fail, by name.");
});

}  // namespace hinterland::native
