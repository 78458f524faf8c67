// What Python sees of bare devices, and of their queues that others drive.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "core/owner.hpp"
#include "storage/driven_queues.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

// As of a controller in software (bind_controller.cpp).
using Queues = std::tuple<uint64_t, uint32_t, uint32_t, uint32_t>;

std::shared_ptr<DrivenQueues> driven(std::shared_ptr<NvmeDevice> device, const Queues& queues, uint64_t bytes, bool forwards,
                                     const nb::object&) {
  const auto& [base, count, submission_size, completion_size] = queues;
  const GilReleased released;
  return made_here<DrivenQueues>(std::move(device), std::span(reinterpret_cast<char*>(base), bytes),
                                 QueueLayout(count, submission_size, completion_size), forwards);
}

}  // namespace

const Binding devices([](nb::module_& m) {
  nb::class_<BlockDevice>(m, "BlockDevice", "A device that this process drives by itself, open as long as anybody has it.")
      .def_prop_ro("bytes", &BlockDevice::bytes);
  m.def(
      "bare_device",
      [](const std::filesystem::path& name, const std::string& root) {
        const GilReleased released;
        return bare_device(name.native(), root);
      },
      nb::arg("name"), nb::arg("root") = "",
      nb::sig("def bare_device(name: str | os.PathLike, root: str = '') -> BlockDevice | None"),
      "The device that nvme:0000:01:00.0 means; None for the name of a file. `root` stands before /sys and /dev, for tests.");
  using Unlocked = nb::call_guard<GilReleased>;
  nb::class_<NvmeDevice, BlockDevice>(m, "NvmeDevice", "A namespace of a bare NVMe device.")
      .def_prop_ro("block_bytes", &NvmeDevice::block_bytes)
      .def_prop_ro("namespace_number", &NvmeDevice::namespace_number)
      .def_prop_ro("free_queues", &NvmeDevice::free_queues, "Queue pairs that nobody has.")
      .def_prop_ro(
          "most_entries", [](const NvmeDevice& self) { return self.controller().most_entries(); }, "Of a ring.")
      .def_prop_ro(
          "most_bytes", [](const NvmeDevice& self) { return self.controller().most_bytes(); }, "Of a command.")
      .def_prop_ro(
          "doorbells",
          [](const NvmeDevice& self) {
            const std::span<char> all = self.controller().all_doorbells();
            return std::pair(reinterpret_cast<uintptr_t>(all.data()), all.size());
          },
          "Whole pages of registers: (address, bytes).");
  nb::class_<DrivenQueues>(m, "DrivenQueues",
                           "Queue pairs of a bare device that others drive. `queues`: as Controller has them; the device\n"
                           "reaches `bytes` from there on, which are `memory`'s.")
      .def(nb::new_(&driven), nb::keep_alive<0, 5>(), nb::arg("device"), nb::arg("queues"), nb::arg("bytes"),
           nb::arg("forwards"), nb::arg("memory"))
      .def_prop_ro("address", &DrivenQueues::address, "Of the memory, for the device.")
      .def_prop_ro(
          "doorbells",
          [](const DrivenQueues& self) {
            std::vector<std::pair<uintptr_t, uintptr_t>> all;
            for (const Doorbells& each : self.doorbells())
              all.emplace_back(reinterpret_cast<uintptr_t>(each.submission), reinterpret_cast<uintptr_t>(each.completion));
            return all;
          },
          "Registers of each queue, for submissions and for completions.")
      .def_prop_ro("lost", &DrivenQueues::lost, "Whether the device was switched off and on, and the queues are gone.")
      .def("reopen", &DrivenQueues::reopen, Unlocked(), "Empty queues in their place, while nobody drives them.")
      .def("acquire", &DrivenQueues::acquire, Unlocked(),
           "Doorbells are forwarded, and overdue commands aborted, until as many release().")
      .def("release", &DrivenQueues::release, Unlocked())
      .def_prop_ro("cpu_ns", &DrivenQueues::cpu_ns, "Of the thread that forwards.")
      .def_prop_ro("aborted", &DrivenQueues::aborted, "Commands that the device has aborted, as they were overdue.");
});

}  // namespace hinterland::native
