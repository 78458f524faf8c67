#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "bindings.hpp"
#include "core/team.hpp"
#include "hinterland/memory/bulk.hpp"
#include "hinterland/memory/clock.hpp"
#include "memory/collect.hpp"
#include "memory/embedding.hpp"
#include "memory/gather.hpp"
#include "memory/order.hpp"
#include "memory/pages.hpp"
#include "params.hpp"

namespace nb = nanobind;

namespace hinterland::native {

HINTERLAND_STRUCT(memory::IndexFault, first, value, table_rows, count, lock, replay);
HINTERLAND_STRUCT(memory::FaultReport, fault, flag, replay);
HINTERLAND_STRUCT(memory::OneRange, base, rows);
HINTERLAND_STRUCT(memory::DealtRound, memories, count, reciprocal);
HINTERLAND_STRUCT(memory::SlotMap, slots, slot_bytes);
HINTERLAND_STRUCT(memory::Tiers, host, map, local, local_rows, resident, dealt, reader, replicas, others);
HINTERLAND_STRUCT(memory::RowCut, lanes, steps, shifted);
HINTERLAND_STRUCT(memory::RowCopy<memory::OneRange>, placement, packed, indices, index_bytes, visit, valid, padding, count,
                  row_bytes, into_table, cut, report);
HINTERLAND_STRUCT(memory::RowCopy<memory::Tiers>, placement, packed, indices, index_bytes, visit, valid, padding, count,
                  row_bytes, into_table, cut, report);
HINTERLAND_STRUCT(memory::CountParams<memory::OneRange>, rows, tiers);
HINTERLAND_STRUCT(memory::CountParams<memory::Tiers>, rows, tiers);
HINTERLAND_STRUCT(memory::SlotLog, places, slot_at, place_of, before);
HINTERLAND_STRUCT(memory::Clock, rows, capacity, slots, row_of, used, marked, hand, written, log);
HINTERLAND_STRUCT(memory::RequestedRows, slots, marked, local, host);
HINTERLAND_STRUCT(memory::ClockBatch, indices, index_bytes, count, filled, claimed, sums, moved, left, places, bounds, each);
HINTERLAND_STRUCT(memory::AdmitParams, clock, batch, control);
HINTERLAND_STRUCT(memory::FillParams, copy, hand);
HINTERLAND_STRUCT(memory::Ranges, memories, bounds, count);
HINTERLAND_STRUCT(memory::RowTableParams, clock, batch, tables, slots, row_bytes, scales, out, values, cut, report);
HINTERLAND_STRUCT(memory::Bags, indices, index_bytes, count, offsets, offset_bytes, closed, each, bags, rows, padding);
HINTERLAND_STRUCT(memory::PoolParams, placement, dim, bags, weights, pooled, best, counts, lanes, steps, offsets, entries);
HINTERLAND_STRUCT(memory::WeighParams, placement, dim, bags, gradient, found, lanes);
HINTERLAND_STRUCT(memory::NoteParams, bags, weights, counts, keys, key_bytes, bag, factor, bad);
HINTERLAND_STRUCT(memory::UpdateParams, placement, dim, state, state_dim, keys, key_bytes, order, count, bag, factor, best,
                  gradient, bad, rate, eps, lanes, steps);

namespace {

void admit_rows(const memory::AdmitParams& params) {
  ThreadTeam team;
  admit(team, params.clock, params.batch);
}

void fill_slots(const memory::FillParams& params) { copy_rows(params.filled()); }

void bind_embedding(nb::module_& m) {
  m.attr("ELEMENTS") = named<ParameterType>({{"float", ParameterType::kFloat32},
                                             {"Float16", ParameterType::kFloat16},
                                             {"Bfloat16", ParameterType::kBfloat16}});  // their C++ names
  m.attr("BAG_THREADS") = kBagThreads;
  def_loop(m, "pool_bags", pool_bags, nb::arg("element"), "What is wrong with offsets, and with entries.");
  def_loop(m, "weigh_entries", weigh_entries, nb::arg("element"));
  def_loop(m, "note_entries", note_entries);
  def_loop(m, "update_rows", update_rows, nb::arg("element"));
}

std::pair<FoundFault, double> send(
    uintptr_t copy, int64_t count, int threads, std::tuple<int64_t, int64_t, int64_t, int64_t> parts,
    std::tuple<uintptr_t, uintptr_t, std::vector<uintptr_t>, int64_t, uintptr_t, uintptr_t, uintptr_t, double> copies,
    const nb::callable& take_over) {
  const GilReleased released;
  const Sent sent = send_rows(*reinterpret_cast<const memory::RowCopy<memory::OneRange>*>(copy), count, threads,
                              std::make_from_tuple<PackedParts>(parts), std::make_from_tuple<PartCopies>(copies),
                              [&](int64_t begun, double rate) {
                                const GilHeld held;
                                return nb::cast<int64_t>(take_over(begun, rate));
                              });
  return {sent.fault, sent.rate};
}

}  // namespace

const Binding memory([](nb::module_& m) {
  using Released = nb::call_guard<GilReleased>;
  bind_embedding(m);
  m.attr("LINE_BYTES") = kLineBytes;
  m.attr("WARP_LANES") = kWarpLanes;
  m.attr("UNIT_BYTES") = sizeof(memory::Unit16);
  m.attr("IN_FLIGHT") = memory::kInFlight;
  m.attr("COPY_THREADS") = memory::kCopyThreads;
  m.attr("BULK_BARRIER_BYTES") = sizeof(BulkBarrier);
  m.attr("NO_FAULT") = memory::kNoFault;
  m.attr("ADMIT_THREADS") = kAdmitThreads;
  m.attr("CLOCK_MOST") = memory::Clock::kMost;
  m.attr("CLOCK_SLOTS_IN_WORD") = memory::Clock::kSlotsInWord;
  m.attr("CLOCK_HAND_AT") = offsetof(memory::ClockState, hand);
  m.attr("CLOCK_STATE_BYTES") = sizeof(memory::ClockState);
  m.def(
      "map_pages",
      [](int fd, int64_t bytes, uintptr_t at) {
        return reinterpret_cast<uintptr_t>(map_pages(fd, bytes, reinterpret_cast<void*>(at)));
      },
      nb::arg("fd"), nb::arg("bytes"), nb::arg("at") = 0, Released());
  m.def(
      "reserve_pages",
      [](int64_t bytes, int64_t alignment) { return reinterpret_cast<uintptr_t>(reserve_pages(bytes, alignment)); },
      nb::arg("bytes"), nb::arg("alignment"));
  def_native(m, "reserve_pages_at", reserve_pages_at, nb::arg("at"), nb::arg("bytes"));
  def_native(m, "unmap_pages", unmap_pages, nb::arg("address"), nb::arg("bytes"));
  def_native(m, "prefer_huge_pages", prefer_huge_pages, nb::arg("address"), nb::arg("bytes"));
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

  def_native(m, "copy_rows", copy_rows, nb::arg("copy"));
  def_native(m, "copy_tiered_rows", copy_tiered_rows, nb::arg("copy"));
  m.attr("CPU_LINE_BYTES") = kCpuLine;
  m.def("send_rows", &send, nb::arg("copy"), nb::arg("count"), nb::arg("threads"), nb::arg("parts"), nb::arg("copies"),
        nb::arg("take_over"), "Parts and copies are the fields of PackedParts and PartCopies (native/memory/collect.hpp).");
  static_assert(memory::kLocal == 0 && memory::kPeers == 1 && memory::kHost == 2 && memory::kTiers == 3);
  m.attr("TIERS") = nb::make_tuple("local", "peers", "host");
  def_loop(m, "count_rows", count_rows);
  def_loop(m, "count_tiered_rows", count_tiered_rows);
  m.attr("CLOCK_SUMS") = 3 * memory::Chunks::kMost;
  def_loop(m, "admit_rows", admit_rows, "Slots for the rows of a batch (include/hinterland/memory/clock.hpp).");
  def_loop(m, "fill_slots", fill_slots, "Those rows copied to their slots.");
  m.attr("ROW_TABLE_THREADS") = kRowTableThreads;
  def_loop(m, "serve_rows", serve_rows, nb::arg("way"));
  def_native(m, "hottest_first", hottest_first, nb::arg("scores"), nb::arg("rows"), nb::arg("order"));
});

}  // namespace hinterland::native
