// What Python sees of the controller in software.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "core/owner.hpp"
#include "storage/controller.hpp"
#include "storage/file_namespace.hpp"
#include "storage/queue_memory.hpp"
#include "storage/spread_namespace.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

using Blocks = std::shared_ptr<Namespace>;
using Regions = std::vector<std::pair<uint64_t, uint64_t>>;
// Where queue pairs lie: the address of the first byte, how many there are, and the sizes of both rings.
using Queues = std::tuple<uint64_t, uint32_t, uint32_t, uint32_t>;

nb::dict layout_of(uint32_t count, uint32_t submission_size, uint32_t completion_size) {
  const QueueLayout layout(count, submission_size, completion_size);
  nb::list queues;
  for (const QueueOffsets& queue : layout.queues)
    queues.append(named<uint64_t>({{"submissions", queue.submissions},
                                   {"completions", queue.completions},
                                   {"submission_doorbell", queue.submission_doorbell},
                                   {"completion_doorbell", queue.completion_doorbell},
                                   {"overdue", queue.overdue}}));
  nb::dict all;
  all["bytes"] = layout.bytes;
  all["queues"] = queues;
  return all;
}

// `hosts`: the queue pairs of each.
std::shared_ptr<Controller> make(const std::vector<Queues>& hosts, const Regions& regions, Blocks blocks, unsigned threads) {
  std::vector<Region> all;
  for (const auto& [address, bytes] : regions) all.push_back({address, bytes});
  std::vector<QueueView> views;
  for (const auto& [base, count, submission_size, completion_size] : hosts)
    for (const QueueView& view : QueueLayout(count, submission_size, completion_size).views(reinterpret_cast<char*>(base)))
      views.push_back(view);
  return made_here<Controller>(std::move(views), std::move(all), std::move(blocks), threads);
}

nb::list stats_of(Controller& controller) {
  const auto each = [&] {
    const GilReleased released;
    return controller.stats();
  }();
  nb::list all;
  for (const ServingStats& one : each)
    all.append(named<uint64_t>({{"commands", one.commands},
                                {"failed", one.failed},
                                {"read_bytes", one.read_bytes},
                                {"written_bytes", one.written_bytes},
                                {"turns", one.turns},
                                {"doorbell_looks", one.doorbell_looks},
                                {"cpu_ns", one.cpu_ns},
                                {"submit_ns", one.submit_ns},
                                {"transfer_ns", one.transfer_ns},
                                {"complete_ns", one.complete_ns},
                                {"picked_up_at", one.picked_up_at},
                                {"completed_at", one.completed_at}}));
  return all;
}

void bind_namespaces(nb::module_& m) {
  nb::class_<Namespace>(m, "Namespace", "Blocks of CONTROLLER_BLOCK_BYTES that a controller serves.")
      .def_prop_ro("blocks", &Namespace::blocks);
  nb::class_<SpreadNamespace, Namespace>(m, "SpreadNamespace")
      .def_prop_ro(
          "begins", [](const SpreadNamespace& self) { return self.spread().begins(); },
          "The first byte of each of those in a row.")
      .def_prop_ro("failed_reads", &SpreadNamespace::failed_reads, "Of each copy, so that another was asked.");
  m.def(
      "file_blocks",
      [](const std::filesystem::path& path, bool writable, unsigned depth, bool claims) -> Blocks {
        return made_here<FileNamespace>(path.string(), writable, depth, bare_device(path.string()), claims);
      },
      nb::arg("path"), nb::arg("writable"), nb::arg("depth"), nb::arg("claims") = true,
      "Of a file, a block device or a bare one (bare_device). Each thread has at most `depth` transfers in flight. What is "
      "writable becomes the file's writer, unless it `claims` nothing since the caller is that.");
  m.def("spread_blocks", &SpreadNamespace::of, nb::arg("members"), nb::arg("unit"), nb::arg("base"),
        "What lies in each from its byte `base` on is dealt round by `unit` bytes, or, with 0, is a copy.");
  m.def("blocks_in_a_row", &SpreadNamespace::in_a_row, nb::arg("members"), "Each begins at a multiple of 64 KiB.");
}

}  // namespace

const Binding controller([](nb::module_& m) {
  m.attr("CONTROLLER_BLOCK_BYTES") = kBlockBytes;
  m.attr("CONTROLLER_NAMESPACE") = kNamespaceId;
  m.def("queue_layout", layout_of, nb::arg("count"), nb::arg("submission_size"), nb::arg("completion_size"),
        "Where rings and doorbells of so many queue pairs lie in one region of memory that begins with a page and is zero:\n"
        "{'bytes': of the region, 'queues': [offsets by name]}.");
  m.def(
      "count_stages", [](bool counts) { counts_stages = counts; }, nb::arg("counts"),
      "Whether controllers that are started from now on add up the time that requests spend in each stage.");
  using Unlocked = nb::call_guard<GilReleased>;
  bind_namespaces(m);
  nb::class_<Controller>(m, "Controller",
                         "Host threads that serve NVMe queue pairs. `queues`: of each host (address of the region, count,\n"
                         "submission_size, completion_size), as queue_layout() has it. `regions`: (address, bytes) of the\n"
                         "memory that commands may name. All of it must stay until stop().")
      .def(nb::new_(&make), nb::arg("queues"), nb::arg("regions"), nb::arg("blocks"), nb::arg("threads"))
      .def("start", &Controller::start, Unlocked(), "Serves the queues from slot 0 on; their memory is zero.")
      .def("stop", &Controller::stop, Unlocked(), "Afterwards no memory is touched. What has not completed never will.")
      .def("acquire", &Controller::acquire, Unlocked(), "Threads are awake until as many release().")
      .def("release", &Controller::release, Unlocked())
      .def("stats", stats_of, "Of each thread, since the last start.");
});

}  // namespace hinterland::native
