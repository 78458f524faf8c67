#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>

#include <array>

#include "bindings.hpp"
#include "memory/clock.hpp"
#include "memory/gather.hpp"
#include "memory/order.hpp"
#include "memory/pages.hpp"

namespace nb = nanobind;

namespace hinterland::native {

namespace {

// (first bad position or -1, its value, how many)
template <class Table>
nb::tuple copy_from(const Table& table, uintptr_t packed, uintptr_t indices, int64_t index_bytes, int64_t count,
                    int64_t row_bytes, bool into_table) {
  memory::IndexFault fault;
  {
    GilReleased released;
    fault = copy_rows({table, reinterpret_cast<char*>(packed), reinterpret_cast<const void*>(indices), index_bytes, nullptr,
                       count, row_bytes, into_table});
  }
  return nb::make_tuple(fault.count == 0 ? int64_t{-1} : fault.first, fault.value, fault.count);
}

}  // namespace

void bind_memory(nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  m.def(
      "map_pages", [](int fd, int64_t bytes) { return reinterpret_cast<uintptr_t>(map_pages(fd, bytes)); }, nb::arg("fd"),
      nb::arg("bytes"), Released());
  m.def(
      "unmap_pages", [](uintptr_t address, int64_t bytes) { unmap_pages(reinterpret_cast<void*>(address), bytes); },
      nb::arg("address"), nb::arg("bytes"), Released());
  m.def("shared_pages", &shared_pages, nb::arg("bytes"));
  m.def(
      "touch", [](uintptr_t address, int64_t bytes) { touch_pages(reinterpret_cast<void*>(address), bytes); },
      nb::arg("address"), nb::arg("bytes"), Released());
  m.def(
      "copy_bytes",
      [](uintptr_t to, uintptr_t from, int64_t bytes) {
        copy_bytes(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
      },
      nb::arg("to"), nb::arg("from_"), nb::arg("bytes"), Released());

  // A one-dimensional array of bytes that keeps `owner` alive; torch.from_dlpack makes it a tensor. The device is stated, not
  // looked up: managed memory belongs to none, and is seen from each GPU as its own.
  m.def(
      "byte_view",
      [](uintptr_t address, size_t bytes, nb::object owner, int cuda_device) {
        return nb::ndarray<uint8_t>(reinterpret_cast<void*>(address), {bytes}, owner, {}, nb::dtype<uint8_t>(),
                                    cuda_device < 0 ? nb::device::cpu::value : nb::device::cuda::value,
                                    cuda_device < 0 ? 0 : cuda_device);
      },
      nb::arg("address"), nb::arg("bytes"), nb::arg("owner"), nb::arg("cuda_device") = -1);

  m.def(
      "copy_rows",
      [](uintptr_t table, int64_t table_rows, uintptr_t packed, uintptr_t indices, int64_t index_bytes, int64_t count,
         int64_t row_bytes, bool into_table) {
        const memory::PointerTable rows{reinterpret_cast<char*>(table), table_rows};
        return copy_from(rows, packed, indices, index_bytes, count, row_bytes, into_table);
      },
      nb::arg("table"), nb::arg("table_rows"), nb::arg("packed"), nb::arg("indices"), nb::arg("index_bytes"),
      nb::arg("count"), nb::arg("row_bytes"), nb::arg("into_table"));
  m.def(
      "copy_tiered_rows",
      [](const TableWords& words, uintptr_t packed, uintptr_t indices, int64_t index_bytes, int64_t count,
         int64_t row_bytes, bool into_table) {
        return copy_from(tiered_table(words), packed, indices, index_bytes, count, row_bytes, into_table);
      },
      nb::arg("table"), nb::arg("packed"), nb::arg("indices"), nb::arg("index_bytes"), nb::arg("count"),
      nb::arg("row_bytes"), nb::arg("into_table"));
  m.attr("CLOCK_SUMS") = 3 * memory::Chunks::kMost;
  m.def(
      "admit_rows",
      [](const ClockWords& words, uintptr_t table, uintptr_t local, int64_t row_bytes) {
        admit(clock_of(words), clock_batch(words), reinterpret_cast<char*>(table), reinterpret_cast<char*>(local), row_bytes);
      },
      nb::arg("words"), nb::arg("table"), nb::arg("local"), nb::arg("row_bytes"), Released(),
      "Slots for the rows of a batch (include/hinterland/memory/clock.hpp), and those rows copied to them.");
  m.def(
      "hottest_first",
      [](uintptr_t scores, int64_t rows, uintptr_t order) {
        hottest_first(reinterpret_cast<const float*>(scores), rows, reinterpret_cast<int64_t*>(order));
      },
      nb::arg("scores"), nb::arg("rows"), nb::arg("order"), Released());
}

}  // namespace hinterland::native
