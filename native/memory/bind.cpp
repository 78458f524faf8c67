#include <nanobind/ndarray.h>

#include "bindings.hpp"
#include "hinterland/memory/bulk.hpp"
#include "memory/clock.hpp"
#include "memory/embedding.hpp"
#include "memory/gather.hpp"
#include "memory/order.hpp"
#include "memory/pages.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(memory::IndexFault, first, value, table_rows, count, lock);
HINTERLAND_STRUCT(memory::FaultReport, fault, flag);
HINTERLAND_STRUCT(memory::OneRange, base, rows);
HINTERLAND_STRUCT(memory::DealtRound, memories, count, reciprocal);
HINTERLAND_STRUCT(memory::SlotMap, slots, slot_bytes);
HINTERLAND_STRUCT(memory::Tiers, host, map, local, local_rows, resident, dealt, reader, replicas, others);
HINTERLAND_STRUCT(memory::RowCut, lanes, steps, shifted);
HINTERLAND_STRUCT(memory::RowCopy<memory::OneRange>, placement, packed, indices, index_bytes, visit, count, row_bytes,
                  into_table, cut, report);
HINTERLAND_STRUCT(memory::RowCopy<memory::Tiers>, placement, packed, indices, index_bytes, visit, count, row_bytes, into_table,
                  cut, report);
HINTERLAND_STRUCT(memory::CountParams<memory::OneRange>, rows, tiers);
HINTERLAND_STRUCT(memory::CountParams<memory::Tiers>, rows, tiers);
HINTERLAND_STRUCT(memory::Clock, rows, capacity, slots, row_of, used, marked, hand);
HINTERLAND_STRUCT(memory::ClockBatch, indices, index_bytes, count, filled, claimed, sums);
HINTERLAND_STRUCT(memory::AdmitParams, clock, batch, control);
HINTERLAND_STRUCT(memory::FillParams, copy, hand);
HINTERLAND_STRUCT(memory::Bags, indices, index_bytes, count, offsets, offset_bytes, closed, each, bags, rows, padding);
HINTERLAND_STRUCT(memory::PoolParams, placement, dim, bags, weights, pooled, best, counts, lanes, steps, offsets, entries);
HINTERLAND_STRUCT(memory::WeighParams, placement, dim, bags, gradient, found, lanes);
HINTERLAND_STRUCT(memory::NoteParams, bags, weights, counts, keys, key_bytes, bag, factor, bad);
HINTERLAND_STRUCT(memory::UpdateParams, placement, dim, state, keys, key_bytes, order, count, bag, factor, best, gradient, bad,
                  rate, eps, lanes, steps);

namespace {

// The arguments of the sentences in src/hinterland/memory/faults.py, or None.
nb::object found(const memory::IndexFault& fault) {
  if (fault.count == 0) return nb::none();
  return nb::make_tuple(fault.first, fault.value, fault.table_rows, fault.count);
}

template <class Placement>
nb::object copy_from(uintptr_t copy) {
  memory::IndexFault fault;
  {
    GilReleased released;
    fault = copy_rows(*reinterpret_cast<const memory::RowCopy<Placement>*>(copy));
  }
  return found(fault);
}

template <class Params>
const Params& at(uintptr_t params) {
  return *reinterpret_cast<const Params*>(params);
}

void bind_embedding(nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  nb::dict elements;  // by their C++ names
  elements["float"] = static_cast<int64_t>(Element::kFloat32);
  elements["Float16"] = static_cast<int64_t>(Element::kFloat16);
  elements["Bfloat16"] = static_cast<int64_t>(Element::kBfloat16);
  m.attr("ELEMENTS") = elements;
  m.attr("BAG_THREADS") = memory::kBagThreads;
  m.def(
      "pool_bags",
      [](uintptr_t params, int64_t element) {
        BagFaults faults;
        {
          GilReleased released;
          faults = pool_bags(at<memory::PoolParams>(params), Element{element});
        }
        return nb::make_tuple(found(faults.offsets), found(faults.entries));
      },
      nb::arg("params"), nb::arg("element"), "What is wrong with offsets, and with entries.");
  m.def(
      "weigh_entries",
      [](uintptr_t params, int64_t element) { weigh_entries(at<memory::WeighParams>(params), Element{element}); },
      nb::arg("params"), nb::arg("element"), Released());
  def_loop(m, "note_entries", note_entries);
  m.def(
      "update_rows", [](uintptr_t params, int64_t element) { update_rows(at<memory::UpdateParams>(params), Element{element}); },
      nb::arg("params"), nb::arg("element"), Released());
}

}  // namespace

void bind_memory(nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  bind_embedding(m);
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

  m.def("copy_rows", &copy_from<memory::OneRange>, nb::arg("copy"));
  m.def("copy_tiered_rows", &copy_from<memory::Tiers>, nb::arg("copy"));
  m.attr("TIERS") = nb::make_tuple("local", "peers", "host");  // as memory::Tier numbers them
  def_native<void, const memory::CountParams<memory::OneRange>&>(m, "count_rows", count_rows, nb::arg("params"));
  def_native<void, const memory::CountParams<memory::Tiers>&>(m, "count_tiered_rows", count_rows, nb::arg("params"));
  m.attr("CLOCK_SUMS") = 3 * memory::Chunks::kMost;
  def_loop(m, "admit_rows", admit_rows, "Slots for the rows of a batch (include/hinterland/memory/clock.hpp).");
  def_loop(m, "fill_slots", fill_slots, "Those rows copied to their slots.");
  def_native(m, "hottest_first", hottest_first, nb::arg("scores"), nb::arg("rows"), nb::arg("order"));
}

}  // namespace hinterland::native
