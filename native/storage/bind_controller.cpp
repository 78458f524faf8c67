// What Python sees of the controller in software.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "storage/controller.hpp"
#include "storage/faults.hpp"
#include "storage/file_namespace.hpp"
#include "storage/memory_namespace.hpp"
#include "storage/queue_memory.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

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
                                   {"completion_doorbell", queue.completion_doorbell}}));
  nb::dict all;
  all["bytes"] = layout.bytes;
  all["queues"] = queues;
  return all;
}

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
      throw nb::value_error(("there is no fault " + name + "; see native/storage/faults.hpp").c_str());
  }
  return faults;
}

// Where nothing is to fail, nothing stands between.
std::unique_ptr<Namespace> with_faults(std::unique_ptr<Namespace> blocks, const nb::dict& faults, uint64_t seed) {
  if (nb::len(faults) == 0) return blocks;
  return std::make_unique<FaultyNamespace>(std::move(blocks), faults_of(faults), seed);
}

Controller* made(const Queues& queues, const Regions& regions, std::unique_ptr<Namespace> blocks, unsigned threads) {
  const auto& [base, count, submission_size, completion_size] = queues;
  std::vector<Region> all;
  for (const auto& [address, bytes] : regions) all.push_back({address, bytes});
  const QueueLayout layout(count, submission_size, completion_size);
  return new Controller(layout.views(reinterpret_cast<char*>(base)), std::move(all), std::move(blocks), threads);
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

nb::tuple told(const Timing& timing) {
  return nb::make_tuple(timing.latency_ns, timing.bytes_per_second, timing.requests_per_second, timing.parallelism);
}

}  // namespace

void bind_controller(nb::module_& m) {
  m.attr("CONTROLLER_BLOCK_BYTES") = kBlockBytes;
  m.attr("CONTROLLER_NAMESPACE") = kNamespaceId;
  nb::dict timings;
  timings["none"] = told(kNoDelay);
  timings["optane"] = told(kOptane);
  timings["z-nand"] = told(kZNand);
  timings["nand"] = told(kNand);
  m.attr("CONTROLLER_TIMINGS") = timings;
  m.def("queue_layout", layout_of, nb::arg("count"), nb::arg("submission_size"), nb::arg("completion_size"),
        "Where rings and doorbells of so many queue pairs lie in one region of memory that begins with a page and is zero:\n"
        "{'bytes': of the region, 'queues': [offsets by name]}.");
  m.def(
      "count_stages", [](bool counts) { counts_stages = counts; }, nb::arg("counts"),
      "Whether controllers that are started from now on add up the time that requests spend in each stage.");
  using Unlocked = nb::call_guard<GilReleased>;
  nb::class_<Controller>(m, "Controller",
                         "Host threads that serve NVMe queue pairs. `queues`: (address of the region, count, submission_size,\n"
                         "completion_size), as queue_layout() has it. `regions`: (address, bytes) of the memory that commands\n"
                         "may name. All of it must stay until stop(). `faults`: how many commands of a thousand fail, by name.")
      .def_static(
          "memory",
          [](const Queues& queues, const Regions& regions, unsigned threads, uint64_t address, uint64_t bytes,
             const std::tuple<uint64_t, uint64_t, uint64_t, uint32_t>& timing, const nb::dict& faults, uint64_t seed) {
            const auto& [latency, bytes_per_second, requests_per_second, parallelism] = timing;
            auto blocks = std::make_unique<MemoryNamespace>(
                reinterpret_cast<char*>(address), bytes, Timing{latency, bytes_per_second, requests_per_second, parallelism});
            return made(queues, regions, with_faults(std::move(blocks), faults, seed), threads);
          },
          nb::arg("queues"), nb::arg("regions"), nb::arg("threads"), nb::arg("address"), nb::arg("bytes"), nb::arg("timing"),
          nb::arg("faults") = nb::dict(), nb::arg("seed") = 0,
          "Blocks in memory. `timing`: (latency in ns, bytes a second, requests a second, requests at once), 0 for no limit.")
      .def_static(
          "file",
          [](const Queues& queues, const Regions& regions, unsigned threads, const std::filesystem::path& path, bool writable,
             unsigned depth, const nb::dict& faults, uint64_t seed) {
            auto blocks = std::make_unique<FileNamespace>(path.string(), writable, depth);
            return made(queues, regions, with_faults(std::move(blocks), faults, seed), threads);
          },
          nb::arg("queues"), nb::arg("regions"), nb::arg("threads"), nb::arg("path"), nb::arg("writable"), nb::arg("depth"),
          nb::arg("faults") = nb::dict(), nb::arg("seed") = 0,
          "Blocks of a file or a block device. Each thread has at most `depth` transfers in flight.")
      .def("start", &Controller::start, Unlocked(), "Serves the queues from slot 0 on; their memory is zero.")
      .def("stop", &Controller::stop, Unlocked(), "Afterwards no memory is touched. What has not completed never will.")
      .def("acquire", &Controller::acquire, Unlocked(), "Threads are awake until as many release().")
      .def("release", &Controller::release, Unlocked())
      .def("abort", &Controller::abort, Unlocked(), nb::arg("queue"), nb::arg("identifier"),
           "True: the command was read, and will neither touch memory nor complete.")
      .def_prop_ro("gone", &Controller::gone, "The device was removed, as `faults` said.")
      .def_prop_ro("blocks", &Controller::blocks, "Blocks of CONTROLLER_BLOCK_BYTES.")
      .def("stats", stats_of, "Of each thread, since the last start.");
}

}  // namespace hinterland::native
