#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <limits>
#include <mutex>
#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "core/owner.hpp"
#include "storage/pinned.hpp"
#include "storage/planned.hpp"
#include "storage/raw.hpp"
#include "storage/spread.hpp"
#include "storage/store.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(StoreCounts, reads, writes, bytes_read, bytes_written, hits, misses, cpu_ns, failed_reads, pinned,
                  expected_bytes);

namespace {

Engine engine_of(const std::string& name) {
  return name == "io_uring" ? Engine::kUring : name == "threads" ? Engine::kThreads : Engine::kBest;
}

// Rows of a file, as Python has them: pairs of (first row, byte in the store's space), one after the other.
struct TableOfStore {
  Store& store;
  std::vector<RowExtent> extents;
  int64_t rows, row_bytes;

  StoredRows all() const { return {extents, rows, row_bytes}; }
  // That these rows lie in, ascending, each once.
  std::vector<storage::Page> pages(std::span<const int64_t> numbers) const {
    return pages_of(store.cache, all(), numbers.data(), static_cast<int64_t>(numbers.size()));
  }
  uint64_t fingerprint(std::span<const int64_t> numbers) const {
    return fingerprint_of(extents.empty() ? 0 : extents[0].position, numbers);
  }
  // A gather of these rows begins: the batch that it is.
  int64_t begin_batch(std::span<const int64_t> numbers) const {
    return store.cache.expected().any() ? store.cache.expected().begin(fingerprint(numbers)) : Expected::kNoBatch;
  }
};

// What a GatherTask met: what failed, empty if nothing; the position of a bad row number, or -1, and that number; which of its
// runs it was, from 1 on.
struct GatherFault {
  std::string error{};
  int64_t position = -1, value = 0, run = 0;
};

// A gather whose row numbers are known when a GPU's stream comes to it: a node of a CUDA graph, which the driver's own thread
// runs (cuLaunchHostFunc). So it must neither call CUDA nor throw.
struct GatherTask {
  static constexpr int64_t kNotAsked = std::numeric_limits<int64_t>::min();  // of a row that stays as it is in `out`

  const TableOfStore& table;
  const int64_t* numbers;  // [count]
  int64_t count;
  char* out;
  bool from_end;  // whether negative ones count from the end, or are none
  std::mutex guard{};
  GatherFault fault{};                    // the first since it was taken
  std::vector<int64_t> rows{}, places{};  // that are asked for now
  int64_t runs = 0;

  // Where numbers or pages are bad, rows are zero.
  void run() noexcept {
    GatherFault met{.run = ++runs};
    int64_t batch = Expected::kNoBatch;
    try {
      met.position = find();
      if (met.position >= 0) {
        met.value = numbers[met.position];
        met.error = "row " + std::to_string(met.value);
      } else if (const auto asked = static_cast<int64_t>(rows.size()); asked > 0) {
        batch = table.begin_batch(rows);
        gather_stored(table.store.cache, table.all(), rows.data(), asked, out, places.data(), batch);
      }
    } catch (const std::exception& thrown) {
      met.error = thrown.what();
    }
    table.store.cache.expected().end(batch);
    if (met.error.empty()) return;
    std::memset(out, 0, static_cast<size_t>(count * table.row_bytes));
    const std::lock_guard held(guard);
    if (fault.error.empty()) fault = met;
  }

 private:
  // Fills in `rows` and `places`. The position of the first number that is no row, or -1.
  int64_t find() {
    rows.clear(), places.clear();
    for (int64_t i = 0; i < count; ++i) {
      if (numbers[i] == kNotAsked) continue;
      const int64_t row = from_end && numbers[i] < 0 ? numbers[i] + table.rows : numbers[i];
      if (row < 0 || row >= table.rows) return i;
      rows.push_back(row), places.push_back(i);
    }
    return -1;
  }
};

void run_gather_task(void* task) { static_cast<GatherTask*>(task)->run(); }

// A method of one of a store's parts; the interpreter's lock is not held meanwhile.
template <class Part, class Result, class... Args>
auto part_method(Part Store::* part, Result (Part::*method)(Args...)) {
  return [part, method](Store& self, Args... args) {
    self.require_same_process();
    const GilReleased released;
    return (self.*part.*method)(args...);
  };
}

// use(volume, arguments) of the volume at a position, likewise.
template <class... Args, class Use>
auto using_volume(const Use& use) {
  return [use](Store& self, int64_t position, Args... args) {
    self.require_same_process();
    const GilReleased released;
    const InUse used(self.cache, static_cast<storage::Page>(position) >> self.cache.line_shift());
    return use(used.volume(), args...);
  };
}

// A call with row numbers at an address, and so many arguments more; the interpreter's lock is not held meanwhile.
template <class... Rest, class Visit>
auto visiting(const Visit& visit) {
  return [visit](const TableOfStore& self, uintptr_t numbers, int64_t count, Rest... rest) {
    self.store.require_same_process();
    const GilReleased released;
    const std::span rows(reinterpret_cast<int64_t*>(numbers), static_cast<size_t>(count));
    return visit(self, rows, rest...);
  };
}

void bind_pages(nb::module_& m) {
  nb::class_<Store>(m, "Store", "Pages of files in host memory, and what moves them.")
      .def(nb::new_([](int64_t bytes, int64_t line_bytes, int threads, unsigned depth, const std::string& engine) {
             const GilReleased released;
             return made_here<Store>(bytes, line_bytes, threads, depth, engine_of(engine));
           }),
           nb::arg("bytes"), nb::arg("line_bytes"), nb::arg("threads"), nb::arg("depth"), nb::arg("engine"))
      .def("open", part_method(&Store::volumes, &Volumes::open), nb::arg("paths"), nb::arg("writable"), nb::arg("stripe") = 0,
           nb::arg("base") = 0,
           "What lies in each file from `base` on is dealt round by `stripe` bytes, or, with 0, is a copy.")
      .def("close", part_method(&Store::cache, &PageCache::close), nb::arg("position"))
      .def("forget_pages", part_method(&Store::cache, &PageCache::forget_pages), nb::arg("position"),
           "The files there were written by another way: what the cache has of them is read anew.")
      .def("descriptors", using_volume<>([](const Volume& volume) { return volume.descriptors(); }), nb::arg("position"))
      .def("take_failures", part_method(&Store::volumes, &Volumes::take_failures),
           "Sentences on copies that have failed a read, each once.")
      .def("read", using_volume<int64_t, uintptr_t, int64_t>([](Volume& volume, int64_t offset, uintptr_t to, int64_t bytes) {
             volume.read(offset, reinterpret_cast<char*>(to), bytes);
           }),
           nb::arg("position"), nb::arg("offset"), nb::arg("to"), nb::arg("bytes"))
      .def("write",
           using_volume<int64_t, uintptr_t, int64_t>([](Volume& volume, int64_t offset, uintptr_t from, int64_t bytes) {
             volume.write(offset, reinterpret_cast<const char*>(from), bytes);
           }),
           nb::arg("position"), nb::arg("offset"), nb::arg("from_"), nb::arg("bytes"),
           "To the file, past the cache: forget_pages() tells the cache.")
      .def("flush", part_method(&Store::cache, &PageCache::flush))
      .def("begin_run", part_method(&Store::host_pages, &HostPages::begin_run))
      .def("end_run", part_method(&Store::host_pages, &HostPages::end_run))
      .def(
          "counts",
          [](Store& self, uintptr_t to) {
            self.require_same_process();
            *reinterpret_cast<StoreCounts*>(to) = self.counts();
          },
          nb::arg("to"))
      .def("require_same_process", &Store::require_same_process)
      .def_prop_ro("is_own", &Store::is_own, "Whether this process made it: a forked one has its parent's.")
      .def_ro("bytes", &Store::bytes)
      .def_prop_ro("line_bytes", [](const Store& self) { return self.frames.line_bytes; })
      .def_prop_ro("num_slots", [](const Store& self) { return self.frames.slots; })
      .def_prop_ro("engine", [](const Store& self) { return self.rings.engine(); })
      .def_prop_ro("address", [](const Store& self) { return reinterpret_cast<uintptr_t>(&self.host_pages); });
}

void bind_expected(nb::module_& m, nb::class_<TableOfStore>& table) {
  nb::class_<Expected::Told>(m, "ExpectedBatches", "Batches of rows that are known to come, for StoredTable.expect().")
      .def(nb::init<int64_t>(), nb::arg("bytes"));
  table
      .def(
          "expect",
          [](const TableOfStore& self, Expected::Told& told) {
            self.store.require_same_process();
            const GilReleased released;
            self.store.cache.expect(std::move(told));
          },
          nb::arg("told"))
      .def("tell", visiting<Expected::Told&>([](const TableOfStore& self, std::span<int64_t> rows, Expected::Told& told) {
             return told.add(self.pages(rows), self.fingerprint(rows));
           }),
           nb::arg("numbers"), nb::arg("count"), nb::arg("told"), "Adds a batch; false: there is no room for it.")
      .def("begin_batch", visiting<>([](const TableOfStore& self, std::span<int64_t> rows) { return self.begin_batch(rows); }),
           nb::arg("numbers"), nb::arg("count"), "The number of a batch that is expected, or -1.")
      .def(
          "end_batch", [](const TableOfStore& self, int64_t batch) { self.store.cache.expected().end(batch); },
          nb::arg("batch"));
}

void bind_pinned(nb::module_& m) {
  nb::class_<Pinned>(m, "PinnedPages", "Pages of a store that stay in memory.")
      .def(nb::new_([](const TableOfStore& table, uintptr_t numbers, int64_t count) {
             table.store.require_same_process();
             const GilReleased released;
             const std::span rows(reinterpret_cast<const int64_t*>(numbers), static_cast<size_t>(count));
             return made_here<Pinned>(table.store.cache, table.pages(rows));
           }),
           nb::keep_alive<0, 2>(), nb::arg("table"), nb::arg("numbers"), nb::arg("count"))
      .def("release", &Pinned::release)
      .def_prop_ro("pages", &Pinned::pages)
      .def_prop_ro("left_out", &Pinned::left_out);
}

void bind_tables(nb::module_& m) {
  nb::class_<TableOfStore> table(m, "StoredTable", "Rows that lie in files of a store.");
  table
      .def(
          "__init__",
          [](TableOfStore* self, Store& store, const std::vector<std::pair<int64_t, int64_t>>& extents, int64_t rows,
             int64_t row_bytes) {
            new (self) TableOfStore{store, {}, rows, row_bytes};
            for (const auto& [first_row, position] : extents) self->extents.push_back({first_row, position});
          },
          nb::keep_alive<1, 2>(), nb::arg("store"), nb::arg("extents"), nb::arg("rows"), nb::arg("row_bytes"))
      .def("gather",
           visiting<uintptr_t, uintptr_t, int64_t>(
               [](const TableOfStore& self, std::span<int64_t> rows, uintptr_t out, uintptr_t places, int64_t batch) {
                 const auto count = static_cast<int64_t>(rows.size());
                 gather_stored(self.store.cache, self.all(), rows.data(), count, reinterpret_cast<char*>(out),
                               reinterpret_cast<const int64_t*>(places), batch);
               }),
           nb::arg("numbers"), nb::arg("count"), nb::arg("out"), nb::arg("places") = 0, nb::arg("batch") = Expected::kNoBatch)
      .def("scatter", visiting<uintptr_t>([](const TableOfStore& self, std::span<int64_t> rows, uintptr_t in) {
             const auto count = static_cast<int64_t>(rows.size());
             scatter_stored(self.store.cache, self.all(), rows.data(), count, reinterpret_cast<const char*>(in));
           }),
           nb::arg("numbers"), nb::arg("count"), nb::arg("rows"))
      .def("read_ahead",
           visiting<>([](const TableOfStore& self, std::span<int64_t> rows) { self.store.read_ahead.begin(self.pages(rows)); }),
           nb::arg("numbers"), nb::arg("count"))
      .def("count_pages", visiting<>([](const TableOfStore& self, std::span<int64_t> rows) { return self.pages(rows).size(); }),
           nb::arg("numbers"), nb::arg("count"), "How many pages these rows lie in.");
  bind_expected(m, table);
  bind_pinned(m);

  nb::class_<GatherTask>(m, "GatherTask", "A gather as a host node of a CUDA graph.")
      .def(
          "__init__",
          [](GatherTask* self, const TableOfStore& table, uintptr_t numbers, int64_t count, uintptr_t out, bool from_end) {
            new (self)
                GatherTask(table, reinterpret_cast<const int64_t*>(numbers), count, reinterpret_cast<char*>(out), from_end);
          },
          nb::keep_alive<1, 2>(), nb::arg("table"), nb::arg("numbers"), nb::arg("count"), nb::arg("out"), nb::arg("from_end"))
      .def_prop_ro("address", [](const GatherTask& self) { return reinterpret_cast<uintptr_t>(&self); })
      .def_prop_ro_static("function", [](nb::handle) { return reinterpret_cast<uintptr_t>(&run_gather_task); })
      .def(
          "take_error",
          [](GatherTask& self) {
            const std::lock_guard held(self.guard);
            const GatherFault met = std::exchange(self.fault, {});
            return std::tuple(met.error, met.position, met.value, met.run);
          },
          "(What failed since the last call, empty if nothing; the position of a bad row number, or -1, and that number; which "
          "run it was, from 1 on.)");
  m.attr("NOT_ASKED") = GatherTask::kNotAsked;
}

}  // namespace

const Binding store([](nb::module_& m) {
  m.def("uring_refusal", uring_refusal, "Why there is no io_uring here, and what to do; empty where there is.");
  bind_pages(m);
  bind_tables(m);
  m.def(
      "striped_bytes",
      [](const std::vector<uint64_t>& sizes, uint64_t stripe) { return Spread::striped(sizes, stripe).bytes(); },
      nb::arg("sizes"), nb::arg("stripe"), "How many bytes, dealt round, files of these sizes hold without a gap.");
  m.def("striped_share", Spread::share, nb::arg("files"), nb::arg("stripe"), nb::arg("bytes"), nb::arg("file"),
        "How many of so many bytes, dealt round, one of the files holds.");
  m.def(
      "run_raw",
      [](const std::filesystem::path& path, uintptr_t offsets, int64_t count, int64_t bytes, int64_t write_every, int threads,
         unsigned depth, const std::string& engine) {
        const GilReleased released;
        const RawRun run = run_raw(path, reinterpret_cast<const int64_t*>(offsets), count, bytes, write_every, threads, depth,
                                   engine_of(engine));
        return std::pair(run.ns, run.cpu_ns);
      },
      nb::arg("path"), nb::arg("offsets"), nb::arg("count"), nb::arg("bytes"), nb::arg("write_every"), nb::arg("threads"),
      nb::arg("depth"), nb::arg("engine"), "Moves blocks without a cache; (nanoseconds, nanoseconds of processor time).");
});

}  // namespace hinterland::native
