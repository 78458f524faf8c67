#include <nanobind/ndarray.h>

#include "bindings.hpp"
#include "hinterland/memory/bulk.hpp"
#include "memory/bind_params.hpp"
#include "memory/clock.hpp"
#include "memory/gather.hpp"
#include "memory/order.hpp"
#include "memory/pages.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(memory::IndexFault, first, value, table_rows, count, lock);
HINTERLAND_STRUCT(memory::PointerTable, base, rows);
HINTERLAND_STRUCT(memory::RowCut, lanes, steps, shifted);
HINTERLAND_STRUCT(memory::RowCopy<memory::PointerTable>, table, packed, indices, index_bytes, visit, count, row_bytes,
                  into_table, cut, report);
HINTERLAND_STRUCT(memory::RowCopy<memory::TieredTable>, table, packed, indices, index_bytes, visit, count, row_bytes,
                  into_table, cut, report);
HINTERLAND_STRUCT(memory::Clock, rows, capacity, slots, row_of, used, marked, hand);
HINTERLAND_STRUCT(memory::ClockBatch, indices, index_bytes, count, filled, claimed, sums);
HINTERLAND_STRUCT(memory::AdmitParams, clock, batch, control);
HINTERLAND_STRUCT(memory::FillParams, copy, hand);

namespace {

template <class Table>
nb::object copy_from(uintptr_t copy) {
  memory::IndexFault fault;
  {
    GilReleased released;
    fault = copy_rows(*reinterpret_cast<const memory::RowCopy<Table>*>(copy));
  }
  return found(fault);
}

}  // namespace

void bind_memory(nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  m.attr("LINE_BYTES") = kLineBytes;
  m.attr("WARP_LANES") = kWarpLanes;
  m.attr("UNIT_BYTES") = sizeof(memory::Unit16);
  m.attr("FLIGHT") = memory::kInFlight;
  m.attr("COPY_THREADS") = memory::kCopyThreads;
  m.attr("BULK_BARRIER_BYTES") = sizeof(memory::BulkBarrier);
  m.attr("NO_FAULT") = memory::kNoFault;
  m.attr("ADMIT_THREADS") = memory::kAdmitThreads;
  m.attr("CLOCK_MOST") = memory::Clock::kMost;
  m.attr("CLOCK_SLOTS_IN_WORD") = memory::Clock::kSlotsInWord;
  m.attr("CLOCK_HAND_AT") = offsetof(memory::ClockState, hand);
  m.attr("CLOCK_STATE_BYTES") = sizeof(memory::ClockState);
  m.def(
      "map_pages", [](int fd, int64_t bytes) { return reinterpret_cast<uintptr_t>(map_pages(fd, bytes)); }, nb::arg("fd"),
      nb::arg("bytes"), Released());
  def_native(m, "unmap_pages", unmap_pages, nb::arg("address"), nb::arg("bytes"));
  m.def("shared_pages", &shared_pages, nb::arg("bytes"));
  def_native(m, "touch", touch_pages, nb::arg("address"), nb::arg("bytes"));
  def_native(m, "copy_bytes", copy_bytes, nb::arg("to"), nb::arg("from_"), nb::arg("bytes"));

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

  m.def("copy_rows", &copy_from<memory::PointerTable>, nb::arg("copy"));
  m.def("copy_tiered_rows", &copy_from<memory::TieredTable>, nb::arg("copy"));
  m.attr("CLOCK_SUMS") = 3 * memory::Chunks::kMost;
  def_loop(m, "admit_rows", admit_rows, "Slots for the rows of a batch (include/hinterland/memory/clock.hpp).");
  def_loop(m, "fill_slots", fill_slots, "Those rows copied to their slots.");
  def_native(m, "hottest_first", hottest_first, nb::arg("scores"), nb::arg("rows"), nb::arg("order"));
}

}  // namespace hinterland::native
